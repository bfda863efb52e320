package render

import (
	"reflect"

	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// rewrite gives a parsed template Python's operators: each binary expression
// but "and", "or" and "in" becomes a call of a function of this package, and so
// does the conversion of what {{ }} prints. The engine has no hook for this,
// and the parts of some statements are not exported, so the tree is walked by
// reflection; only exported fields are changed.
func rewrite(root *nodes.Template) {
	w := &walker{seen: map[uintptr]bool{}}
	w.walk(reflect.ValueOf(root))
	for _, g := range w.items {
		// The engine does not find the first item counted from the end.
		if u, ok := g.Arg.(*nodes.UnaryExpression); ok && u.Negative {
			g.Arg = call(g.Location, opIndex, g.Node, u)
		}
	}
	for _, b := range w.binary {
		pythonBinary(b)
	}
	for _, u := range w.unary {
		if u.Negative {
			u.Negative = false
			u.Term = call(u.Operator, opNegate, u.Term)
		}
	}
	for _, n := range w.negations {
		n.Term = call(n.Operator, opTruth, n.Term)
	}
	for _, b := range w.wrappers {
		charge(b)
	}
	for _, o := range w.outputs {
		o.Expression = call(o.Start, opPrint, o.Expression)
		if o.Alternative != nil {
			o.Alternative = call(o.Start, opPrint, o.Alternative)
		}
	}
}

type walker struct {
	seen      map[uintptr]bool
	binary    []*nodes.BinaryExpression
	unary     []*nodes.UnaryExpression
	negations []*nodes.Negation
	outputs   []*nodes.Output
	wrappers  []*nodes.Wrapper
	items     []*nodes.GetItem
}

func (w *walker) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		w.walk(v.Elem())
	case reflect.Pointer:
		w.pointer(v)
	case reflect.Struct:
		for i := range v.NumField() {
			w.walk(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.walk(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			w.walk(it.Value())
		}
	default:
	}
}

func (w *walker) pointer(v reflect.Value) {
	if v.IsNil() || w.seen[v.Pointer()] {
		return
	}
	at := v.UnsafePointer() // reads through fields that are not exported
	switch v.Type() {
	case reflect.TypeFor[*tokens.Token](), reflect.TypeFor[*Renderer](), reflect.TypeFor[*nodes.Data]():
		return
	case reflect.TypeFor[*nodes.BinaryExpression]():
		w.binary = append(w.binary, (*nodes.BinaryExpression)(at))
	case reflect.TypeFor[*nodes.UnaryExpression]():
		w.unary = append(w.unary, (*nodes.UnaryExpression)(at))
	case reflect.TypeFor[*nodes.Negation]():
		w.negations = append(w.negations, (*nodes.Negation)(at))
	case reflect.TypeFor[*nodes.Output]():
		w.outputs = append(w.outputs, (*nodes.Output)(at))
	case reflect.TypeFor[*nodes.GetItem]():
		w.items = append(w.items, (*nodes.GetItem)(at))
	case reflect.TypeFor[*nodes.Wrapper]():
		w.wrappers = append(w.wrappers, (*nodes.Wrapper)(at))
	}
	w.seen[v.Pointer()] = true
	w.walk(v.Elem())
}

// pythonBinary turns "left op right" into "true and op(left, right)": the node
// cannot be replaced, since others point to it, and the engine's "and" gives
// its right side as it is.
func pythonBinary(b *nodes.BinaryExpression) {
	op := b.Operator.Token
	name, ok := binaryOps()[op.Type]
	if !ok {
		return
	}
	and := *op
	and.Type, and.Val = tokens.And, "and"
	b.Right = call(op, name, b.Left, b.Right)
	b.Left = &nodes.Bool{Location: b.Left.Position(), Val: true}
	b.Operator = &nodes.BinOperator{Token: &and}
}

// call is a call of one of this package's functions at a place.
func call(at *tokens.Token, name string, args ...nodes.Expression) nodes.Expression {
	t := *at
	t.Type, t.Val = tokens.Name, name
	return &nodes.Call{Location: at, Func: &nodes.Name{Name: &t}, Args: args, Kwargs: map[string]nodes.Expression{}}
}

// charge makes a block's plain text count each time the block is run.
func charge(b *nodes.Wrapper) {
	size := 0
	for _, n := range b.Nodes {
		if d, ok := n.(*nodes.Data); ok {
			size += len(d.Data.Val)
		}
	}
	if size == 0 || b.Location == nil {
		return
	}
	cost := &nodes.Output{
		Start: b.Location, End: b.Location,
		Expression: call(b.Location, opCharge, &nodes.Integer{Location: b.Location, Val: size}),
	}
	b.Nodes = append([]nodes.Node{cost}, b.Nodes...)
}
