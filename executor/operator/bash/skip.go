package bash

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// skipCodes reads skip_on_exit_code: 99 when it is not given, none when it is
// null.
func skipCodes(args map[string]any) (map[int]bool, error) {
	v, given := args["skip_on_exit_code"]
	if !given {
		return map[int]bool{99: true}, nil
	}
	out := map[int]bool{}
	if v == nil {
		return out, nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, item := range list {
		n, ok := exitCode(item)
		if !ok {
			return nil, fmt.Errorf("skip_on_exit_code has %v; an exit code is a whole number from 1 to 255", item)
		}
		out[n] = true
	}
	return out, nil
}

func exitCode(v any) (int, bool) {
	var f float64
	switch x := v.(type) {
	case int:
		f = float64(x)
	case int64:
		f = float64(x)
	case float64:
		f = x
	case json.Number:
		n, err := strconv.ParseFloat(x.String(), 64)
		if err != nil {
			return 0, false
		}
		f = n
	default:
		return 0, false
	}
	if f != math.Trunc(f) || f < 1 || f > 255 {
		return 0, false
	}
	return int(f), true
}
