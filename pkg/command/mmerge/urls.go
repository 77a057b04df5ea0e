package mmerge

import (
	"bufio"
	"errors"
	"io"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/cli"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
)

// runURLs merges sets by op and writes URLs. Sets hold none, so they are taken from the records that are among
// the operands: files of url, link or fetch rows, and the files of the rounds of crawl folders.
func (s *operands) runURLs(std *cli.Std, op merge.Op) error {
	if s.Text || s.Polynomial != 0 {
		return &fault.Error{Class: fault.Usage, Found: "--urls with --text or --polynomial", Want: "it alone: keys of records are by Mercator's polynomial"}
	}
	mem := std.MemoryLimit() / 4
	rows := merge.NewSorter(mem, "") // URLs, by their keys
	defer rows.Close()
	var in []*fpset.Input
	defer func() { fpset.CloseInputs(in) }()
	records := 0
	for _, name := range s.Files {
		files, err := urlFiles(std, name)
		if err != nil {
			return err
		}
		var one []*fpset.Input
		if files == nil {
			one, err = fpset.OpenInputs([]string{name}, false, fingerprint.Polynomial, std.In, mem/int64(len(s.Files)))
		} else {
			records++
			one, err = keysOfFiles(std, name, files, rows, mem/int64(len(s.Files)))
		}
		if err != nil {
			return err
		}
		in = append(in, one...)
	}
	if records == 0 {
		return &fault.Error{Class: fault.Usage, Found: "--urls with sets alone, which hold no URLs", Want: "a crawl folder or a file of url, link or fetch records among them",
			Hint: "mmerge diff --urls tuesday monday compares two crawl folders"}
	}
	var all []merge.Set
	for _, i := range in {
		files, err := i.Files()
		if err != nil {
			return err
		}
		all = append(all, files)
	}
	result := merge.NewKeyFile("", fingerprint.Polynomial)
	defer result.Close()
	if err := merge.Files(result, op, all, merge.Options{Threads: std.Threads(), Memory: mem}); err != nil {
		return err
	}
	keys, err := result.Finish()
	if err != nil {
		return err
	}
	named, err := rows.Sort()
	if err != nil {
		return err
	}
	return s.writeURLs(std, keys.All(), named)
}

// urlFiles are the record files that an operand stands for; nil if it is a set.
func urlFiles(std *cli.Std, name string) (files []string, err error) {
	if name != "-" && store.IsCrawl(name, store.Options{}) {
		return std.RecordFiles([]string{name}, cli.New, cli.Links, cli.Outcomes)
	}
	if name == "-" || fpset.IsSet(name) {
		return nil, nil
	}
	return []string{name}, nil
}

// keysOfFiles gives the keys of the files' rows as a set, and adds their URLs to rows.
func keysOfFiles(std *cli.Std, name string, files []string, rows *merge.Sorter, mem int64) ([]*fpset.Input, error) {
	var next func() (uint64, error)
	in, err := fpset.SortInput(name, merge.KeysOf(func() (uint64, error) {
		for {
			if next == nil {
				if len(files) == 0 {
					return 0, io.EOF
				}
				var err error
				if next, err = eachURL(std, files[0], rows); err != nil {
					return 0, err
				}
				files = files[1:]
			}
			key, err := next()
			if err != io.EOF {
				return key, err
			}
			next = nil
		}
	}), fingerprint.Polynomial, mem)
	return []*fpset.Input{in}, err
}

// eachURL gives the keys of a file's rows.
func eachURL(std *cli.Std, file string, rows *merge.Sorter) (func() (uint64, error), error) {
	src, err := cli.OpenSource(std, []string{file}, cli.Outcomes)
	if err != nil {
		return nil, err
	}
	switch src.Kind() {
	case record.KindURL:
		return eachRow(src, rows, func(r *record.URL) (uint64, string) { return r.Key, r.URL })
	case record.KindLink:
		return eachRow(src, rows, func(r *record.Link) (uint64, string) { return r.Key, r.URL })
	case record.KindFetch:
		return eachRow(src, rows, func(r *record.Fetch) (uint64, string) {
			if r.Role != record.RolePage {
				return 0, ""
			}
			return r.Key, r.URL
		})
	}
	return nil, &fault.Error{Class: fault.WrongKind, File: file, Found: "module rows, which have no URL", Want: "url, link or fetch rows"}
}

func eachRow[T record.Row](src *cli.Records, rows *merge.Sorter, of func(*T) (uint64, string)) (func() (uint64, error), error) {
	in, err := cli.RowsOf[T](src)
	if err != nil {
		return nil, err
	}
	var row T
	return func() (uint64, error) {
		for {
			if err := in.Read(&row); err != nil {
				return 0, err
			}
			if key, url := of(&row); url != "" {
				return key, rows.Add(key, []byte(url))
			}
		}
	}, nil
}

// writeURLs writes the URLs of keys, one a line, whole or not at all where they go to a file.
func (s *operands) writeURLs(std *cli.Std, keys merge.Source, rows *merge.Iter) error {
	to := std.Out
	if s.Output != "" && s.Output != "-" {
		file, err := durable.CreateOutput(s.Output)
		if err != nil {
			return err
		}
		defer file.Abort()
		if err := s.printURLs(std, file, keys, rows); err != nil {
			return err
		}
		return file.Commit()
	}
	return s.printURLs(std, to, keys, rows)
}

func (s *operands) printURLs(std *cli.Std, to io.Writer, keys merge.Source, rows *merge.Iter) error {
	out := bufio.NewWriter(to)
	nameless, err := merge.JoinKeys(keys, rows, func(url []byte) error {
		_, err := out.Write(append(record.AppendEscaped(nil, string(url)), '\n'))
		return err
	})
	if err == nil && nameless > 0 {
		std.Warn("%s in sets alone, which hold no URLs, are left out", cli.Count(nameless, "key"))
	}
	return errors.Join(err, out.Flush())
}
