package row

// Code is the reason for which a row is quarantined: column error_code of
// airlock_dead_letter_row. The list is closed; docs/operators/merge.md explains
// each.
type Code string

// Codes of rows that could not be read.
const (
	BadQuote      Code = "BAD_QUOTE"
	TooFewFields  Code = "TOO_FEW_FIELDS"
	TooManyFields Code = "TOO_MANY_FIELDS"
	InvalidUTF8   Code = "INVALID_UTF8"
	LineTooLong   Code = "LINE_TOO_LONG"
	UnfinishedRow Code = "UNFINISHED_ROW"
	BadJSON       Code = "BAD_JSON"
	NotAnObject   Code = "NOT_AN_OBJECT"
	DuplicateKey  Code = "DUPLICATE_JSON_KEY"
	TrailingData  Code = "TRAILING_DATA"
	UnknownField  Code = "UNKNOWN_FIELD"
	// HeaderUnknown: a letter that is read again does not say which columns its
	// file had, or they are not the step's.
	HeaderUnknown Code = "HEADER_UNKNOWN"
)

// Codes of values that a column refuses.
const (
	RequiredMissing Code = "REQUIRED_MISSING"
	NullInKey       Code = "NULL_IN_KEY"
	NullNotAllowed  Code = "NULL_NOT_ALLOWED"
	WrongType       Code = "WRONG_TYPE"
	NotAnInteger    Code = "NOT_AN_INTEGER"
	NotADecimal     Code = "NOT_A_DECIMAL"
	NotANumber      Code = "NOT_A_NUMBER"
	OutOfRange      Code = "OUT_OF_RANGE"
	TooManyDecimals Code = "TOO_MANY_DECIMALS"
	PrecisionLost   Code = "PRECISION_LOST"
	TooLong         Code = "TOO_LONG"
	NulCharacter    Code = "NUL_CHARACTER"
	BadDate         Code = "BAD_DATE"
	BadTimestamp    Code = "BAD_TIMESTAMP"
	NoTimeZone      Code = "NO_TIME_ZONE"
	AmbiguousTime   Code = "AMBIGUOUS_TIME"
	NotABoolean     Code = "NOT_A_BOOLEAN"
	NotInValues     Code = "NOT_IN_VALUES"
	PatternMismatch Code = "PATTERN_MISMATCH"
	CheckFailed     Code = "CHECK_FAILED"
	NotComputable   Code = "NOT_COMPUTABLE"
)

// Codes of rows that the target database refuses.
const (
	RowTooLarge     Code = "ROW_TOO_LARGE"
	UniqueConflict  Code = "UNIQUE_CONFLICT"
	ForeignKey      Code = "FOREIGN_KEY"
	CheckConstraint Code = "CHECK_CONSTRAINT"
	Rejected        Code = "REJECTED_BY_DATABASE"
)

// Codes lists every code, in the order of the documentation.
func Codes() []Code {
	return []Code{
		BadQuote, TooFewFields, TooManyFields, InvalidUTF8, LineTooLong, UnfinishedRow,
		BadJSON, NotAnObject, DuplicateKey, TrailingData, UnknownField, HeaderUnknown,
		RequiredMissing, NullInKey, NullNotAllowed, WrongType, NotAnInteger, NotADecimal, NotANumber,
		OutOfRange, TooManyDecimals, PrecisionLost, TooLong, NulCharacter, BadDate, BadTimestamp,
		NoTimeZone, AmbiguousTime, NotABoolean, NotInValues, PatternMismatch, CheckFailed, NotComputable,
		RowTooLarge, UniqueConflict, ForeignKey, CheckConstraint, Rejected,
	}
}
