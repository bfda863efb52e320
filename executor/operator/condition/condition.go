package condition

import (
	"encoding/json"
	"strconv"
	"strings"
)

// False words in lower case; see True.
func falseWords() []string {
	return []string{"", "false", "f", "no", "n", "off", "none", "null", "nil", "empty", "[]", "{}", "()", "set()", `""`, "''"}
}

// True tells whether a value is true. Of texts, without the white space around
// them and whatever their case, these are false: the empty one, false, f, no,
// n, off, none, null, nil, empty, an empty list or mapping as Python or JSON
// writes it, and every number that is zero. All other texts are true. Other
// values are as in Python: zero, null and what has no elements are false.
func True(v any) bool {
	switch x := v.(type) {
	case nil:
		return false
	case bool:
		return x
	case string:
		return trueText(x)
	case json.Number:
		return trueText(x.String())
	case float64:
		return x != 0
	case int:
		return x != 0
	case int64:
		return x != 0
	case []any:
		return len(x) > 0
	case map[string]any:
		return len(x) > 0
	default:
		return true
	}
}

func trueText(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	for _, w := range falseWords() {
		if text == w {
			return false
		}
	}
	if compact := strings.Join(strings.Fields(text), ""); compact == "[]" || compact == "{}" || compact == "()" {
		return false
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f != 0
	}
	return true
}
