package dag

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
}
