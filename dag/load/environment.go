package load

import "regexp"

var envName = regexp.MustCompile(`\$(?:([A-Za-z0-9_]+)|\{([^}]*)\})`)

// expandEnv replaces $NAME and ${NAME}. A name that is not set stays as it is
// written; there is no escape.
func expandEnv(s string, lookup func(string) (string, bool)) string {
	return envName.ReplaceAllStringFunc(s, func(m string) string {
		name := m[1:]
		if name[0] == '{' {
			name = name[1 : len(name)-1]
		}
		if v, ok := lookup(name); ok {
			return v
		}
		return m
	})
}
