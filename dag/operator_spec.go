package dag

import (
	"fmt"
	"io/fs"
)

// FieldType is the type of an operator's key in a DAG file.
type FieldType string

// Field types. A scalar that YAML 1.1 and 1.2 read differently takes the
// field's type.
const (
	FieldString     FieldType = "string"
	FieldInt        FieldType = "int"
	FieldFloat      FieldType = "float"
	FieldBool       FieldType = "bool"
	FieldDuration   FieldType = "duration"    // stored in Args as float64 seconds
	FieldStringList FieldType = "string_list" // a list, or one text
	FieldMap        FieldType = "map"
	FieldAny        FieldType = "any"
)

// Field describes one key of an operator: the loader checks files against it
// and docs/operators.md is checked against it.
type Field struct {
	Name      string
	Type      FieldType
	Required  bool
	Templated bool
	// Mappable keys may stand under expand.
	Mappable bool
	Enum     []string
	Default  any
	Doc      string // one sentence
	// Fields are the allowed keys of a FieldMap; nil allows any.
	Fields []Field
	// Ordered: a mapping is stored as the list of its pairs [key, value], so that
	// the order of the file is kept.
	Ordered bool
}

// OperatorSpec describes an operator to the loader and to the documentation.
type OperatorSpec struct {
	Name string // short name: "bash"
	// Aliases are the class paths of Airflow that mean this operator.
	Aliases []string
	Doc     string
	Fields  []Field
	// OneOf lists groups of keys of which exactly one must be given.
	OneOf [][]string
	// Ignored are keys that Airflow's operator has and this one does not act
	// on: each use is a warning.
	Ignored []string
	// Validate finds what the fields cannot say. It sees the args as authored
	// (templates not rendered) and reports problems with Path relative to the
	// task ("source.file") and no place: the loader adds it.
	Validate func(args map[string]any) []Problem
	// ValidateAt is Validate for an operator that has to know where the task
	// stands; nil for none. A problem with a File keeps it: it stands in a file
	// beside the DAG's.
	ValidateAt func(args map[string]any, at Place) []Problem
}

// Place is what the loader tells of where a task stands.
type Place struct {
	// Mapped are the values of the arguments that the task is expanded over, as
	// far as the file gives them; those of args are no values of the task.
	Mapped map[string][]any
	// Beside finds a file in the DAG file's folder by its name and gives its
	// content and its path as problems name it; ok is false when there is none.
	Beside func(name string) (data []byte, path string, ok bool)
	// Stat looks at a local path; a relative one starts at the DAG file's folder. It
	// is nil where the machine that reads the file need not be the one that runs the
	// task.
	Stat func(path string) (fs.FileInfo, error)
}

// Literal gives the values that the file itself writes for an argument, each
// with its path below the task.
func (p Place) Literal(args map[string]any, name string) map[string]any {
	out := map[string]any{}
	if _, mapped := p.Mapped[name]; mapped {
		for i, v := range p.Mapped[name] {
			out[fmt.Sprintf("expand.%s[%d]", name, i)] = v
		}
		return out
	}
	if v, ok := args[name]; ok && v != nil {
		out[name] = v
	}
	return out
}
