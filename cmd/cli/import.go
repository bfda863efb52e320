package cli

import (
	"fmt"

	"github.com/airlock-dag/airlock/cmd/adf"
	"github.com/airlock-dag/airlock/dag"
)

// importCmd groups what is read from other tools.
type importCmd struct {
	ADF importADFCmd `cmd:"" name:"adf" help:"Convert a pipeline of Azure Data Factory into a DAG file."`
}

type importADFCmd struct {
	File    string   `arg:"" name:"file" help:"The pipeline's JSON, or an exported ARM template; - for the standard input."`
	Out     string   `placeholder:"FILE" default:"-" help:"The DAG file to write; - for the standard output."`
	Columns []string `placeholder:"NAME:TYPE,..." help:"The columns of copies whose file has no mapping, in order."`
	Key     []string `placeholder:"COLUMN,..." help:"The columns that identify a row, for copies that only append."`
	Partial bool     `help:"Leave an empty task in the place of an activity that is not converted."`
}

// Run converts a pipeline, and says what is not the same.
func (c importADFCmd) Run(s *session) error {
	data, err := s.readFile(c.File)
	if err != nil {
		return err
	}
	text, problems, err := adf.Convert(c.File, data, adf.Options{Columns: c.Columns, Key: c.Key, Partial: c.Partial})
	if err != nil {
		return err
	}
	wrongs := 0
	for _, p := range problems {
		fmt.Fprintln(s.env.Stderr, p)
		if p.Severity == dag.SeverityError {
			wrongs++
		}
	}
	if wrongs > 0 {
		fmt.Fprintf(s.env.Stderr, "%s; nothing was written\n", count(wrongs, "error"))
		return errReported
	}
	if err := s.writeFile(c.Out, []byte(text)); err != nil {
		return wrong("write "+c.Out, "name a file in a folder that is there", "%w", err)
	}
	if c.Out != "-" {
		fmt.Fprintf(s.env.Stderr, "written to %s; check it with `airlock dags validate %s`\n", c.Out, c.Out)
	}
	return nil
}
