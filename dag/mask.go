package dag

import (
	"encoding/json"
	"strings"
)

// Masked stands where a secret stood.
const Masked = "***"

// MaskValues copies a value of JSON types with the values of all keys that look
// like secrets replaced by Masked, at any depth. Null and empty texts stay as
// they are: they give nothing away and say that nothing was set. Values of
// other Go types are passed through.
func MaskValues(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if x == nil {
			return x
		}
		out := make(map[string]any, len(x))
		for k, value := range x {
			if LooksSecret(k) && value != nil && value != "" {
				out[k] = Masked
				continue
			}
			out[k] = MaskValues(value)
		}
		return out
	case map[string]string:
		if x == nil {
			return x
		}
		out := make(map[string]string, len(x))
		for k, value := range x {
			if LooksSecret(k) && value != "" {
				value = Masked
			}
			out[k] = value
		}
		return out
	case []any:
		if x == nil {
			return x
		}
		out := make([]any, len(x))
		for i := range x {
			out[i] = MaskValues(x[i])
		}
		return out
	case []map[string]any:
		out := make([]map[string]any, len(x))
		for i := range x {
			out[i], _ = MaskValues(x[i]).(map[string]any)
		}
		return out
	case json.RawMessage:
		value, err := decodeExact(x)
		if err != nil {
			return x
		}
		masked, err := encodeExact(MaskValues(value))
		if err != nil {
			return x
		}
		return masked
	default:
		return v
	}
}

// LooksSecret tells whether a key's name says that its value is a secret. The
// name of a connection that holds one (secret_conn_id) is not.
func LooksSecret(key string) bool {
	k := strings.ToLower(key)
	if strings.HasSuffix(k, "conn_id") || strings.HasSuffix(k, "connection_id") {
		return false
	}
	k = strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(k)
	for _, word := range []string{
		"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "fernetkey",
		"authorization", "credential", "keyfiledict", "serviceaccount", "proxyauth", "cookie", "signingkey",
	} {
		if strings.Contains(k, word) {
			return true
		}
	}
	return k == "pwd" || k == "pass" || k == "auth"
}
