package row

// Kind is what a source says about a value before any column type is applied.
type Kind uint8

// Kinds of values.
const (
	// Missing: the record has no such field (a JSON object without the key).
	Missing Kind = iota
	// Null: an explicit null, or a text that the source declares to mean null.
	Null
	// Text is a text: a CSV field, a JSON string.
	Text
	// Number is a number as it was written: every digit is kept.
	Number
	// Bool has the text "true" or "false".
	Bool
	// JSON is an object or array, as its own JSON text.
	JSON
	// Time is an instant or a wall-clock time that a database driver gave, in
	// the form 2006-01-02 15:04:05.999999999 with no zone.
	Time
	// Bytes is binary data from a database.
	Bytes
)

// String names the kind for messages.
func (k Kind) String() string {
	switch k {
	case Missing:
		return "nothing"
	case Null:
		return "null"
	case Text:
		return "a text"
	case Number:
		return "a number"
	case Bool:
		return "a boolean"
	case JSON:
		return "an object or list"
	case Time:
		return "a time"
	case Bytes:
		return "binary data"
	default:
		return "an unknown kind"
	}
}

// Value is one field of a record, not yet typed.
type Value struct {
	Kind Kind
	Text string
}

// Absent tells whether there is no value: missing or null.
func (v Value) Absent() bool { return v.Kind == Missing || v.Kind == Null }

// Record is one row as its source gave it.
type Record struct {
	// Source names where it comes from: a file, "query", "xcom load.return_value".
	Source string
	// Line is the physical line of the row's first byte, from 1; for a query or
	// a list the number of the row.
	Line int64
	// Offset is the place of the row's first byte in the (unpacked) file, from
	// 0; -1 where the source has no bytes.
	Offset int64
	// Raw is the row's own bytes without the line end, or as JSON for a query.
	// Rows beyond the reader's limit hold their beginning only.
	Raw string
	// Values are the wanted columns in the reader's order; nil when Fault is
	// set by the reader. They are valid until the next call of Next.
	Values []Value
	// Fault is set when the row could not be read.
	Fault *Fault
}

// Fault is why a row is quarantined.
type Fault struct {
	Code Code
	// Column is the column at fault; empty when it is the row as a whole.
	Column string
	// Message says what was found and what is allowed.
	Message string
}
