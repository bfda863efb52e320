package column

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// Check is a condition that a row must meet, in the words of expr-lang with
// SQL's =, <>, AND, OR, NOT and IN (...) understood too. As in SQL, a row for
// which a column that it names is null passes.
type Check struct {
	text    string
	program *vm.Program
	// names are the columns that the expression reads.
	names []string
}

// ParseCheck compiles an expression over the given columns.
func ParseCheck(text string, columns []*Column) (*Check, error) {
	source := fromSQL(text)
	tree, err := parser.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("check %q: %w", text, firstLine(err))
	}
	known := map[string]*Column{}
	var all []string
	for _, c := range columns {
		known[c.Name] = c
		all = append(all, c.Name)
	}
	reads := &reader{}
	ast.Walk(&tree.Node, reads)
	env := map[string]any{}
	for _, n := range reads.names {
		c, ok := known[n]
		if !ok {
			return nil, fmt.Errorf("check %q: there is no column %q; there are %s", text, n, strings.Join(all, ", "))
		}
		env[n] = example(c.Type)
	}
	options := append([]expr.Option{expr.Env(env), expr.AsBool()}, numberOperators()...)
	program, err := expr.Compile(source, options...)
	if err != nil {
		return nil, fmt.Errorf("check %q: %w", text, firstLine(err))
	}
	return &Check{text: text, program: program, names: reads.names}, nil
}

// String is the expression as it was written.
func (k *Check) String() string { return k.text }

// Passes evaluates the check; value gives a column's converted value.
func (k *Check) Passes(value func(name string) (any, Type)) (bool, error) {
	env := make(map[string]any, len(k.names))
	for _, n := range k.names {
		v, t := value(n)
		if v == nil {
			return true, nil
		}
		env[n] = inExpression(v, t)
	}
	out, err := expr.Run(k.program, env)
	if err != nil {
		return false, firstLine(err)
	}
	ok, _ := out.(bool)
	return ok, nil
}

// Failure is the fault of a row that does not pass: it tells the values that the
// condition read.
func (k *Check) Failure(column string, value func(name string) (any, Type), err error) *row.Fault {
	if err != nil {
		return &row.Fault{Code: row.CheckFailed, Column: column, Message: fmt.Sprintf("%s cannot be computed: %v", k.text, err)}
	}
	return &row.Fault{Code: row.CheckFailed, Column: column, Message: "the row does not meet: " + k.text + k.found(value)}
}

// found is what the columns of the condition hold, or nothing where it reads none.
func (k *Check) found(value func(name string) (any, Type)) string {
	var found []string
	for _, n := range k.names {
		v, t := value(n)
		text := plain(v)
		if t.Kind != Decimal && t.Kind != Integer && t.Kind != Double {
			text = show(text)
		}
		if one := n + " is " + text; !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " (" + strings.Join(found, ", ") + ")"
}

func firstLine(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}

// reader collects the identifiers of an expression.
type reader struct{ names []string }

// Visit implements ast.Visitor.
func (r *reader) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok && !slices.Contains(r.names, id.Value) {
		r.names = append(r.names, id.Value)
	}
}

// fromSQL turns what SQL writes differently into expr's words, outside texts.
func fromSQL(text string) string {
	var b strings.Builder
	inList := 0 // depth of parentheses inside IN ( ... )
	afterIn := false
	for i := 0; i < len(text); {
		ch := text[i]
		switch {
		case ch == '\'' || ch == '"' || ch == '`':
			end := i + 1
			for end < len(text) && text[end] != ch {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			b.WriteString(text[i:end])
			i = end
			afterIn = false
		case isWordByte(ch):
			end := i
			for end < len(text) && isWordByte(text[end]) {
				end++
			}
			word := text[i:end]
			switch strings.ToUpper(word) {
			case "AND", "OR", "NOT", "IN":
				word = strings.ToLower(word)
			case "TRUE", "FALSE":
				word = strings.ToLower(word)
			}
			afterIn = word == "in"
			b.WriteString(word)
			i = end
		case strings.HasPrefix(text[i:], "<>"):
			b.WriteString("!=")
			i += 2
		case strings.HasPrefix(text[i:], "<="), strings.HasPrefix(text[i:], ">="), strings.HasPrefix(text[i:], "=="), strings.HasPrefix(text[i:], "!="):
			b.WriteString(text[i : i+2])
			i += 2
		case ch == '=':
			b.WriteString("==")
			i++
		case ch == '(' && afterIn:
			b.WriteByte('[')
			inList, afterIn = 1, false
			i++
		case ch == '(' && inList > 0:
			inList++
			b.WriteByte(ch)
			i++
		case ch == ')' && inList > 0:
			inList--
			if inList == 0 {
				ch = ']'
			}
			b.WriteByte(ch)
			i++
		default:
			b.WriteByte(ch)
			if ch != ' ' && ch != '\t' && ch != '\n' {
				afterIn = false
			}
			i++
		}
	}
	return b.String()
}

func isWordByte(ch byte) bool {
	return ch == '_' || ch >= 0x80 || (ch >= '0' && ch <= '9') || (ch|0x20 >= 'a' && ch|0x20 <= 'z')
}
