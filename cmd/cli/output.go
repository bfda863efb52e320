package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"go.yaml.in/yaml/v4"
	"golang.org/x/term"

	"github.com/airlock-dag/airlock/dag"
)

// outputFlag is the flag of commands that list or show.
type outputFlag struct {
	Output string `short:"o" enum:"table,json,yaml,plain" default:"table" help:"table, json, yaml or plain (columns parted by tabs)."`
}

// column is one column of a table: its title and the cell of a row.
type column[T any] struct {
	title string
	cell  func(T) any
	// only is the format that has the column: table, plain, or "" for both; wide is
	// a table with room for it.
	only string
	// fit says how the column gives way where a table is wider than the terminal: 0 by
	// cut cells, keptFit after all others, 1 and more by being left out, the highest first.
	fit int
}

// wideFrom is how many characters a terminal's line has that shows all columns of
// a table.
const wideFrom = 110

func col[T any](title string, cell func(T) any) column[T] { return column[T]{title: title, cell: cell} }

// tableCol is a column of the table alone, plainCol one that a table has no room
// for.
func tableCol[T any](title string, cell func(T) any) column[T] {
	return column[T]{title: title, cell: cell, only: "table"}
}

// wideCol is a column of the table alone that narrow terminals do without.
func wideCol[T any](title string, cell func(T) any) column[T] {
	return column[T]{title: title, cell: cell, only: "wide"}
}

func plainCol[T any](title string, cell func(T) any) column[T] {
	return column[T]{title: title, cell: cell, only: "plain"}
}

// kept is a column whose cells are to be copied, as ids are: others give way first.
func kept[T any](c column[T]) column[T] {
	c.fit = keptFit
	return c
}

// spared is a column that a table does without where the terminal is too narrow:
// that of the highest rank first. Ranks begin at 1.
func spared[T any](rank int, c column[T]) column[T] {
	c.fit = rank
	return c
}

// printRows prints rows as a table, or whole as JSON or YAML with the keys of
// their JSON form.
func printRows[T any](w io.Writer, format string, rows []T, columns ...column[T]) error {
	if format == "json" || format == "yaml" {
		if rows == nil {
			rows = []T{} // printed as [], not as null
		}
		return printValue(w, format, rows)
	}
	width := terminalWidth(w)
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column[T]) bool {
		wide := c.only == "wide" && format == "table" && (width == 0 || width >= wideFrom)
		return c.only != "" && c.only != format && !wide
	})
	titles, fits := make([]string, len(columns)), make([]int, len(columns))
	for i, c := range columns {
		titles[i], fits[i] = c.title, c.fit
	}
	lines := make([][]string, len(rows))
	for i, row := range rows {
		for _, c := range columns {
			lines[i] = append(lines[i], cellText(c.cell(row)))
		}
	}
	if format == "plain" {
		return printPlain(w, titles, lines)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	if width > 0 {
		titles, lines = narrow(titles, lines, fits, width)
	}
	return printTable(w, titles, lines, 0)
}

// terminalWidth is how many characters a line of the terminal has that is
// written to, 0 where there is none: a file gets whole cells.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// pair is one line of a shown thing.
type pair struct {
	key   string
	value any
}

// printPairs prints one thing as lines of key and value, or its whole as JSON
// or YAML.
func printPairs(w io.Writer, format string, whole any, pairs []pair) error {
	switch format {
	case "json", "yaml":
		return printValue(w, format, whole)
	case "plain":
		for _, p := range pairs {
			if _, err := fmt.Fprintf(w, "%s\t%s\n", p.key, oneLine(cellText(p.value))); err != nil {
				return err
			}
		}
		return nil
	}
	lines := make([][]string, len(pairs))
	for i, p := range pairs {
		lines[i] = []string{p.key, cellText(p.value)}
	}
	keys := 0
	for _, line := range lines {
		keys = max(keys, text.StringWidth(line[0]))
	}
	return printTable(w, nil, lines, max(0, terminalWidth(w)-keys-7))
}

// printTable prints a table; the second column is broken at wrap characters when
// that is not 0.
func printTable(w io.Writer, titles []string, lines [][]string, wrap int) error {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = 0 // titles are column names, as they are in the database
	t.SetStyle(style)
	if wrap > 0 {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, WidthMax: wrap, WidthMaxEnforcer: text.WrapText}})
	}
	if titles != nil {
		t.AppendHeader(tableRow(titles))
	}
	for _, line := range lines {
		t.AppendRow(tableRow(line))
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

func tableRow(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	return row
}

func printPlain(w io.Writer, titles []string, lines [][]string) error {
	for _, line := range slices.Concat([][]string{titles}, lines) {
		for i := range line {
			line[i] = oneLine(line[i])
		}
		if _, err := fmt.Fprintln(w, strings.Join(line, "\t")); err != nil {
			return err
		}
	}
	return nil
}

// printValue prints JSON, or YAML with the same keys in the same order.
func printValue(w io.Writer, format string, v any) error {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("print as %s: %w", format, err)
	}
	text := b.String()
	if format == "yaml" {
		// YAML takes this one for a line's end, JSON for a character like any other.
		text = strings.ReplaceAll(text, "\u0085", `\u0085`)
		var tree yaml.Node
		if err := yaml.Load([]byte(text), &tree); err != nil {
			return fmt.Errorf("print as yaml: %w", err)
		}
		blockStyle(&tree)
		out, err := yaml.Dump(&tree, yaml.WithIndent(2))
		if err != nil {
			return fmt.Errorf("print as yaml: %w", err)
		}
		text = string(out)
	}
	_, err := io.WriteString(w, text)
	return err
}

// blockStyle forgets JSON's braces and quotes; the writer quotes what needs it.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		blockStyle(child)
	}
}

// cellText is a value as a person reads it: nothing as -, times in UTC to the
// second, lists with commas.
func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		if v == "" {
			return "-"
		}
		return dag.ShownText(v)
	case *time.Time:
		if v == nil {
			return "-"
		}
		return cellText(*v)
	case time.Time:
		if v.IsZero() {
			return "-"
		}
		return v.UTC().Format("2006-01-02 15:04:05")
	case []string:
		return cellText(strings.Join(v, ", "))
	case json.RawMessage:
		return cellText(string(v))
	case fmt.Stringer:
		return cellText(v.String())
	default:
		return cellText(fmt.Sprint(v))
	}
}

func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
}

// shorten cuts a text to its first line and at most limit characters.
func shorten(s string, limit int) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}
