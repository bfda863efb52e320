package load

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// YAML 1.1 (what Airflow's users write for) and YAML 1.2 read some plain
// scalars differently. A field with a type takes the reading that fits; where
// any type would do, the author has to say which is meant by quoting.
var (
	bool11    = regexp.MustCompile(`^(?:yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$`)
	bool12    = regexp.MustCompile(`^(?:true|True|TRUE|false|False|FALSE)$`)
	intBoth   = regexp.MustCompile(`^[-+]?(?:0|[1-9][0-9]*)$`)
	hexBoth   = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	floatBoth = regexp.MustCompile(`^(?:[-+]?[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?$`)
	infNaN    = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)

	octal11     = regexp.MustCompile(`^[-+]?0[0-7_]+$`)
	zeroPadded  = regexp.MustCompile(`^[-+]?0[0-9]+$`)
	octal12     = regexp.MustCompile(`^0o[0-7]+$`)
	binary11    = regexp.MustCompile(`^[-+]?0b[01_]+$`)
	underscores = regexp.MustCompile(`^[-+]?(?:0x[0-9a-fA-F_]*_[0-9a-fA-F_]*|[1-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?)$`)
	base60      = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`)
	float12     = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
)

// ambiguous says how the two versions read a plain scalar where they differ;
// "" where they agree.
func ambiguous(s string) string {
	switch {
	case s == "" || !strings.ContainsRune("+-.0123456789yYnNoO", rune(s[0])):
		return ""
	case bool11.MatchString(s):
		return "a boolean in YAML 1.1 and a text in YAML 1.2"
	case intBoth.MatchString(s), hexBoth.MatchString(s), floatBoth.MatchString(s), infNaN.MatchString(s):
		return ""
	case octal11.MatchString(s) && !strings.Contains(s, "_"):
		v, ok := new(big.Int).SetString(strings.TrimLeft(s, "+"), 8)
		w, ok2 := new(big.Int).SetString(strings.TrimLeft(s, "+"), 10)
		if ok && ok2 && len(s) < 20 {
			return fmt.Sprintf("the number %s in YAML 1.1 and %s in YAML 1.2", v, w)
		}
		return "an octal number in YAML 1.1 and a decimal one in YAML 1.2"
	case zeroPadded.MatchString(s), octal12.MatchString(s):
		return "a text in YAML 1.1 and a number in YAML 1.2"
	case octal11.MatchString(s), binary11.MatchString(s), underscores.MatchString(s), base60.MatchString(s):
		return "a number in YAML 1.1 and a text in YAML 1.2"
	case float12.MatchString(s):
		return "a text in YAML 1.1 and a number in YAML 1.2"
	default:
		return ""
	}
}

// any turns a value into JSON types. path names it for messages.
func (r *report) any(n *node, path string) (any, bool) {
	switch n.kind {
	case listNode:
		out := make([]any, 0, len(n.items))
		ok := true
		for i, item := range n.items {
			v, good := r.any(item, index(path, i))
			ok = ok && good
			out = append(out, v)
		}
		return out, ok
	case mapNode:
		return r.anyMap(n, path)
	default:
		return r.anyScalar(n, path)
	}
}

func (r *report) anyMap(n *node, path string) (any, bool) {
	if n.get("__type__") != nil {
		return r.typedValue(n, path)
	}
	if n.get("__and__") != nil || n.get("__or__") != nil {
		r.err(n, path, codeAssets, "__and__ and __or__ join texts here, and assets are nothing that Airlock has", "put the texts in quotes")
		return nil, false
	}
	out := make(map[string]any, len(n.fields))
	ok := true
	for _, f := range n.fields {
		v, good := r.any(f.val, join(path, f.name))
		ok = ok && good
		out[f.name] = v
	}
	return out, ok
}

func (r *report) anyScalar(n *node, path string) (any, bool) {
	if !n.plain {
		return n.text, true
	}
	s := n.text
	if isNullText(s) {
		return nil, true
	}
	if why := ambiguous(s); why != "" {
		r.err(n, path, codeAmbiguous, s+" is "+why, fmt.Sprintf("write %q for the text, or the value without doubt", s))
		return nil, false
	}
	switch {
	case bool12.MatchString(s):
		return strings.EqualFold(s, "true"), true
	case intBoth.MatchString(s), hexBoth.MatchString(s):
		return jsonInt(s), true
	case floatBoth.MatchString(s):
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) {
			r.err(n, path, codeBadValue, s+" is too large a number", "put it in quotes to keep it as a text")
			return nil, false
		}
		return f, true
	case infNaN.MatchString(s):
		r.err(n, path, codeBadValue, s+" is not a number that JSON can carry", "put it in quotes to keep it as a text")
		return nil, false
	default:
		return s, true
	}
}

// jsonInt is a float64 where that holds the number exactly, else its digits.
func jsonInt(s string) any {
	v, ok := new(big.Int).SetString(strings.TrimPrefix(s, "+"), 0)
	if !ok { // intBoth and hexBoth match what SetString reads
		return s
	}
	const exact = 1 << 53
	if v.IsInt64() && v.Int64() <= exact && v.Int64() >= -exact {
		return float64(v.Int64())
	}
	return json.Number(v.String())
}

// text reads a text: any scalar is one as it is written.
func (r *report) text(n *node, path string) (string, bool) {
	if n.kind != scalarNode || n.null() {
		r.err(n, path, codeWrongType, "a text must stand here, not "+describe(n), "")
		return "", false
	}
	return n.text, true
}

// boolean reads true or false, in the words of either YAML version.
func (r *report) boolean(n *node, path string) (bool, bool) {
	if n.kind == scalarNode && n.plain {
		switch strings.ToLower(n.text) {
		case "true", "yes", "on":
			return true, true
		case "false", "no", "off":
			return false, true
		}
	}
	hint := ""
	if n.kind == scalarNode {
		switch strings.ToLower(strings.Trim(n.text, " ,")) {
		case "true", "false", "yes", "no", "on", "off":
			hint = "write it without quotes or comma"
		}
	}
	r.err(n, path, codeWrongType, "true or false must stand here, not "+describe(n), hint)
	return false, false
}

// integer reads a whole number of at least least.
func (r *report) integer(n *node, path string, least int) (int, bool) {
	if n.kind == scalarNode && !n.null() {
		s := strings.TrimSpace(n.text)
		if octal11.MatchString(s) && !strings.Contains(s, "_") && strings.Trim(s, "+-0") != "" {
			r.err(n, path, codeAmbiguous, s+" is "+ambiguous(s), "write the number without the leading zero")
			return 0, false
		}
		if v, ok := wholeNumber(s); ok {
			if v < int64(least) || v > math.MaxInt32 {
				r.err(n, path, codeBadValue, fmt.Sprintf("%s is not allowed: at least %d and at most %d", s, least, math.MaxInt32), "")
				return 0, false
			}
			return int(v), true
		}
	}
	r.err(n, path, codeWrongType, "a whole number must stand here, not "+describe(n), "")
	return 0, false
}

// wholeNumber reads the integer forms of both YAML versions.
func wholeNumber(s string) (int64, bool) {
	switch {
	case intBoth.MatchString(s), zeroPadded.MatchString(s):
		v, err := strconv.ParseInt(strings.TrimPrefix(s, "+"), 10, 64)
		return v, err == nil
	case hexBoth.MatchString(s), octal12.MatchString(s), binary11.MatchString(s), underscores.MatchString(s):
		v, err := strconv.ParseInt(strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "+"), 0, 64)
		return v, err == nil
	case base60.MatchString(s) && !strings.Contains(s, "."):
		return sixty(s)
	default:
		return 0, false
	}
}

// sixty reads YAML 1.1's base 60: 1:30 is 90.
func sixty(s string) (int64, bool) {
	sign := int64(1)
	if strings.HasPrefix(s, "-") {
		sign = -1
	}
	var total int64
	for _, part := range strings.Split(strings.TrimLeft(strings.ReplaceAll(s, "_", ""), "+-"), ":") {
		v, err := strconv.ParseInt(part, 10, 64)
		if err != nil || total > math.MaxInt64/60-v {
			return 0, false
		}
		total = total*60 + v
	}
	return sign * total, true
}

// number reads a number with or without a fraction.
func (r *report) number(n *node, path string) (float64, bool) {
	if n.kind == scalarNode && !n.null() {
		if v, ok := realNumber(strings.TrimSpace(n.text)); ok {
			return v, true
		}
	}
	r.err(n, path, codeWrongType, "a number must stand here, not "+describe(n), "")
	return 0, false
}

func realNumber(s string) (float64, bool) {
	if v, ok := wholeNumber(s); ok {
		return float64(v), true
	}
	if !float12.MatchString(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// texts reads a list of texts; one text stands for a list of one.
func (r *report) texts(n *node, path string) ([]string, bool) {
	if n.kind == scalarNode && !n.null() {
		return []string{n.text}, true
	}
	if n.kind != listNode {
		r.err(n, path, codeWrongType, "a list of texts must stand here, not "+describe(n), "")
		return nil, false
	}
	out := make([]string, 0, len(n.items))
	ok := true
	for i, item := range n.items {
		s, good := r.text(item, index(path, i))
		ok = ok && good
		if good {
			out = append(out, s)
		}
	}
	return out, ok
}

// oneOf reads a text out of a closed list.
func (r *report) oneOf(n *node, path string, allowed []string) (string, bool) {
	s, ok := r.text(n, path)
	if !ok {
		return "", false
	}
	for _, a := range allowed {
		if s == a {
			return s, true
		}
	}
	hint := ""
	if c := dag.Nearest(s, allowed); c != "" {
		hint = "did you mean " + c + "?"
	}
	r.err(n, path, codeBadValue, quote(s)+" is not one of "+strings.Join(allowed, ", "), hint)
	return "", false
}
