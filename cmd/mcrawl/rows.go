package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/cli"
)

// asRows says how rows are printed.
type asRows struct {
	JSON bool `name:"json" xor:"rows" help:"Print JSON lines."`
	CSV  bool `name:"csv" xor:"rows" help:"Print CSV, with a line of names."`
}

// rows prints rows: JSON lines, CSV, or lines with tabs between cells.
type rows struct {
	json *json.Encoder
	csv  *csv.Writer
	out  *bufio.Writer
}

func (a *asRows) openRows(std *cli.Std, names ...string) (*rows, error) {
	var to io.Writer = std.Out
	if !a.JSON && !a.CSV {
		to = std.Screen()
	}
	r := &rows{out: bufio.NewWriter(to)}
	switch {
	case a.JSON:
		r.json = json.NewEncoder(r.out)
		r.json.SetEscapeHTML(false)
	case a.CSV:
		r.csv = csv.NewWriter(r.out)
		return r, r.csv.Write(names)
	}
	return r, nil
}

// printRow prints a row, which is v in JSON.
func (r *rows) printRow(v any, cells ...string) error {
	switch {
	case r.json != nil:
		return r.json.Encode(v)
	case r.csv != nil:
		for i, c := range cells {
			cells[i] = record.CSVCell(c)
		}
		return r.csv.Write(cells)
	}
	_, err := r.out.WriteString(strings.ReplaceAll(cli.Printable(strings.Join(cells, "\t")), "\n", " ") + "\n")
	return err
}

func (r *rows) flush() error {
	if r.csv != nil {
		r.csv.Flush()
		if err := r.csv.Error(); err != nil {
			return err
		}
	}
	return r.out.Flush()
}
