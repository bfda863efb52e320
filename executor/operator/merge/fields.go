package merge

import "github.com/airlock-dag/airlock/dag"

// fields are the keys of the step.
func fields() []dag.Field {
	return []dag.Field{
		{Name: "conn_id", Type: dag.FieldString, Required: true, Templated: true, Mappable: true,
			Doc: "Connection of the target database: mysql, mariadb or sqlite."},
		{Name: "source", Type: dag.FieldMap, Templated: true, Mappable: true, Fields: sourceFields(),
			Doc: "Where the rows come from: file, query or xcom."},
		{Name: "columns", Type: dag.FieldAny, Templated: true, Ordered: true,
			Doc: "The columns with their types and rules: a mapping of names, or a list in which each has a name."},
		{Name: "target", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "The table that the rows go into."},
		{Name: "create_target", Type: dag.FieldBool, Default: false, Doc: "Make the table from the columns when it is not there."},
		{Name: "key", Type: dag.FieldStringList, Templated: true, Doc: "The columns that identify a row: the target's primary key or a unique index."},
		{Name: "version", Type: dag.FieldString, Templated: true,
			Doc: "The column that tells newer from older: an older row never overwrites a newer one."},
		{Name: "duplicates", Type: dag.FieldString, Enum: []string{"newest", "fail"},
			Doc: "What a key that a batch has twice means; newest when there is a version, else fail."},
		{Name: "when_matched", Type: dag.FieldAny, Templated: true, Default: "update",
			Doc: "What happens to a row whose key is there: update, a list of columns, ignore, or {delete: condition, update: ..., if: condition}."},
		{Name: "when_not_matched", Type: dag.FieldAny, Templated: true, Default: "insert",
			Doc: "What happens to a row whose key is not there: insert, ignore, or {if: condition}."},
		{Name: "when_not_matched_by_source", Type: dag.FieldAny, Templated: true, Default: "ignore",
			Doc: "What happens to the table's rows that the source has not: ignore, delete, {delete: condition}, or {update: {column: expression}, if: condition}."},
		{Name: "folded_keys", Type: dag.FieldString, Enum: []string{"fail", "same"}, Default: "fail",
			Doc: "What keys of one batch mean that only the table's collation takes for the same: fail the batch, or the same key."},
		{Name: "watermark", Type: dag.FieldMap, Templated: true, Fields: watermarkFields(), Doc: "How far the pipeline has come; moved in the batch's transaction."},
		{Name: "bad_rows", Type: dag.FieldMap, Fields: []dag.Field{
			{Name: "max", Type: dag.FieldInt, Doc: "The greatest number of bad rows."},
			{Name: "max_ratio", Type: dag.FieldFloat, Doc: "The greatest share of bad rows, from 0 to 1."},
		}, Doc: "How many bad rows a batch may have before it fails and changes nothing."},
		{Name: "chunk", Type: dag.FieldInt, Default: 0, Doc: "Rows in a transaction; 0 for all in one."},
		{Name: "sql", Type: dag.FieldString, Templated: true, Mappable: true,
			Doc: "The step as a MERGE statement, instead of source, target, key and the when keys."},
		{Name: "idempotency_key", Type: dag.FieldString, Templated: true,
			Doc: "Key of the effect; the task instance when not given."},
	}
}

func sourceFields() []dag.Field {
	return []dag.Field{
		{Name: "file", Type: dag.FieldStringList, Templated: true, Doc: "Path or pattern of files, or a list of them; relative to the DAG's file."},
		{Name: "format", Type: dag.FieldString, Templated: true, Doc: "csv, tsv, jsonl or parquet; by the file's name when not given."},
		{Name: "delimiter", Type: dag.FieldString, Templated: true, Default: ",", Doc: "One ASCII character between fields, or tab."},
		{Name: "quote", Type: dag.FieldString, Default: `"`, Doc: "One ASCII character around fields; empty for none."},
		{Name: "header", Type: dag.FieldBool, Default: true, Doc: "The first row names the columns."},
		{Name: "names", Type: dag.FieldStringList, Doc: "The columns in order, for a file without a header."},
		{Name: "encoding", Type: dag.FieldString, Templated: true,
			Doc: "utf-8, utf-16, utf-16-le, utf-16-be, iso-8859-1 or windows-1252; by the byte order mark, else utf-8, when not given."},
		{Name: "null", Type: dag.FieldStringList, Doc: "Texts without quotes that mean null; the empty text when not given."},
		{Name: "unknown_fields", Type: dag.FieldString, Enum: []string{"ignore", "reject"},
			Doc: "A field that is not among the columns: reject quarantines the row (jsonl) or fails the file (csv). Default reject for jsonl, else ignore."},
		{Name: "on_missing", Type: dag.FieldString, Enum: []string{"fail", "skip", "empty"}, Default: "fail",
			Doc: "When no file matches: fail the step, skip it, or merge nothing."},
		{Name: "max_row_bytes", Type: dag.FieldInt, Default: 4194304, Doc: "Length from which a row is a bad one."},
		{Name: "final_newline", Type: dag.FieldString, Enum: []string{"optional", "required"}, Default: "optional",
			Doc: "With required, a last row without a line end is not finished and is quarantined."},
		{Name: "query", Type: dag.FieldString, Templated: true, Doc: "A query that gives the rows; it may use :watermark_from and :watermark_to."},
		{Name: "parameters", Type: dag.FieldMap, Templated: true, Doc: "Values of the query's :name parameters."},
		{Name: "conn_id", Type: dag.FieldString, Templated: true, Doc: "Connection of the query; the target's when not given."},
		{Name: "xcom", Type: dag.FieldString, Templated: true, Doc: "An upstream task that left a list of objects: load, or load.output."},
		{Name: "key", Type: dag.FieldString, Templated: true, Default: "return_value", Doc: "Key of the XCom."},
	}
}

func watermarkFields() []dag.Field {
	return []dag.Field{
		{Name: "column", Type: dag.FieldString, Templated: true, Required: true, Doc: "A timestamp, date or integer column that grows."},
		{Name: "name", Type: dag.FieldString, Templated: true, Required: true, Doc: "Name of the pipeline in airlock_watermark."},
		{Name: "lookback", Type: dag.FieldAny, Templated: true,
			Doc: "How far before the watermark a query reads again: a duration, or a number for integers. Default 10m or 1000."},
		{Name: "lag", Type: dag.FieldAny, Templated: true, Doc: "How much before the source's present time a query stops; a duration, default 0."},
		{Name: "tie_breaker", Type: dag.FieldString, Templated: true, Doc: "A column whose greatest value at the watermark is stored beside it."},
		{Name: "allow_future", Type: dag.FieldBool, Default: false, Doc: "Let rows from the future move the watermark past the present."},
		{Name: "initial", Type: dag.FieldString, Templated: true, Doc: "Lower bound of a query's first batch."},
	}
}
