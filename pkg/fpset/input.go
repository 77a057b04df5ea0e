package fpset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/merge"
)

// IsSet says, by its name or because it is a folder, whether a path holds a set
// and not records.
func IsSet(path string) bool {
	if strings.HasSuffix(path, ".fps") || strings.HasSuffix(path, ".txt") {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// StandardInput is the name under which standard input stands in messages.
const StandardInput = "standard input"

// Input is a set to read, wherever it lies.
type Input struct {
	Name       string
	Kind       string // of the store; "" if it lies in none
	Polynomial uint64
	Hash       string // function that made content_fp, of documents in a store; else ""
	Count      uint64
	files      merge.Set // nil if the set is not kept in fingerprint files
	open       func() (merge.Source, error)
	check      func(progress func(int64)) error
	describe   func() (any, error)
	close      func() error
}

// Files returns the set as fingerprint files, which Close closes. A set of an
// implementation that has none is written to a temporary one first.
func (in *Input) Files() (merge.Set, error) {
	if in.files != nil {
		return in.files, nil
	}
	all, err := in.open()
	if err != nil {
		return nil, err
	}
	f := merge.NewKeyFile("", in.Polynomial)
	closeSet := in.close
	in.close = func() error { return errors.Join(closeSet(), f.Close()) }
	if err := merge.Copy(f, all); err != nil {
		return nil, err
	}
	r, err := f.Finish()
	if err != nil {
		return nil, err
	}
	in.files = merge.Set{r}
	return in.files, nil
}

// CheckKind refuses (fault.WrongKind) the set of a store of another kind: keys of
// documents are no URL checksums.
func (in *Input) CheckKind(kind string) error {
	if in.Kind == "" || in.Kind == kind {
		return nil
	}
	return &fault.Error{Class: fault.WrongKind, File: in.Name, Found: "a store of kind " + in.Kind, Want: "kind " + kind}
}

// CheckHash refuses (fault.WrongKind) the set of a store if its hash of content_fp differs from the hash of (HashOf).
func (in *Input) CheckHash(of string) error {
	if in.Hash == "" || in.Hash == of {
		return nil
	}
	return &fault.Error{Class: fault.WrongKind, File: in.Name, Place: paramHash, Found: in.Hash, Want: of,
		Hint: "keys of documents by different functions cannot be compared"}
}

// Source reads the set from its start.
func (in *Input) Source() (merge.Source, error) { return in.open() }

// Check verifies the whole of it.
func (in *Input) Check(progress func(bytes int64)) error { return in.check(progress) }

// Describe returns the output of the verb stat: a JSON value.
func (in *Input) Describe() (any, error) { return in.describe() }

// Close lets go of its files.
func (in *Input) Close() error { return in.close() }

// inputAhead bounds the buffers of all files that are merged together.
const inputAhead = 8 << 20

// OpenInputs opens the sets in paths: fingerprint files, the folders of stores, crawl folders for their URLs, and
// with text, or named *.txt, text of any order; "-" is stdin, as text. All must be of
// the polynomial, or, if that is 0, of one. Text, which names none, is taken to be of
// it: of Mercator's if all is text. Stores must be of one kind; files carry none. mem
// bounds the memory for sorting text.
func OpenInputs(paths []string, text bool, polynomial uint64, stdin io.Reader, mem int64) (list []*Input, err error) {
	defer func() {
		if err != nil {
			CloseInputs(list)
			list = nil
		}
	}()
	ahead := int64(inputAhead) / int64(max(1, len(paths)))
	of := ""      // for messages: the input that the polynomial comes from
	var st *Input // the first store: all others must have its kind
	for i, p := range paths {
		if p == "-" && slices.Contains(paths[:i], p) {
			return list, &fault.Error{Class: fault.Usage, Found: "standard input twice", Want: "it once: the second would be empty"}
		}
		in, err := openInput(p, text, polynomial, stdin, mem, ahead)
		if err != nil {
			return list, err
		}
		list = append(list, in)
		if in.Kind != "" {
			st = cmp.Or(st, in)
			if in.Kind != st.Kind {
				return list, &fault.Error{Class: fault.WrongKind, File: in.Name, Found: "a store of kind " + in.Kind, Want: "kind " + st.Kind + ", as " + st.Name,
					Hint: "keys of documents and checksums of URLs cannot be compared"}
			}
			if err := in.CheckHash(st.Hash); err != nil {
				return list, err
			}
		}
		switch {
		case in.Polynomial == polynomial || in.Polynomial == 0:
		case polynomial == 0:
			polynomial, of = in.Polynomial, ", as in "+in.Name
		default:
			return list, &fault.Error{Class: fault.WrongKind, File: in.Name, Found: "polynomial " + fingerprint.Format(in.Polynomial),
				Want: fingerprint.Format(polynomial) + of, Hint: "fingerprints of different polynomials cannot be compared"}
		}
	}
	for _, in := range list {
		in.Polynomial = cmp.Or(polynomial, fingerprint.Polynomial)
	}
	return list, nil
}

// CloseInputs closes all of list. They were only read, so there is nothing to report.
func CloseInputs(list []*Input) {
	for _, in := range list {
		_ = in.Close()
	}
}

// Sources opens all of list.
func Sources(list []*Input) ([]merge.Source, error) {
	var all []merge.Source
	for _, in := range list {
		s, err := in.Source()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func openInput(path string, text bool, polynomial uint64, stdin io.Reader, mem, ahead int64) (*Input, error) {
	if path == "-" {
		return openText(stdin, StandardInput, polynomial, mem, ahead)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openStore(path)
	}
	text = text || strings.HasSuffix(path, ".txt")
	if !text && !info.Mode().IsRegular() { // before it is opened, which waits for a writer
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "a pipe", Want: "a fingerprint file, which is read from its end",
			Hint: "give text with --text, or put it into a file first"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if text {
		defer f.Close()
		return openText(f, path, polynomial, mem, ahead)
	}
	r, err := fpfile.Open(f, info.Size(), path)
	if err != nil {
		f.Close()
		if wrong, ok := errors.AsType[*fault.Error](err); ok && !strings.HasSuffix(path, ".fps") && errors.Is(err, fault.WrongKind) {
			wrong.Hint = "if it is text, give --text, or name it *.txt"
		}
		return nil, err
	}
	return fileInput(path, r, ahead, f.Close), nil
}

func fileInput(name string, r *fpfile.Reader, ahead int64, closer func() error) *Input {
	r.SetReadAhead(min(ahead, readAhead))
	return &Input{Name: name, Polynomial: r.Polynomial(), Count: r.Count(), files: merge.Set{r}, check: r.Check, close: closer,
		open: func() (merge.Source, error) { return r.All(), nil },
		describe: func() (any, error) {
			return FileSummary{Polynomial: fingerprint.Format(r.Polynomial()), Run: Run{name, r.Count(), r.Size(), r.Blocks()}}, nil
		}}
}

func openText(in io.Reader, name string, polynomial uint64, mem, ahead int64) (*Input, error) {
	return sortInput(name, merge.NewText(in, name), polynomial, mem, ahead)
}

// Documents sorts the keys, by the polynomial, of the documents that read gives
// until io.EOF (see Document) into an Input.
func Documents(read func(*record.Fetch) error, polynomial uint64, mem int64) (*Input, error) {
	poly, err := fingerprint.NewPoly(polynomial)
	if err != nil {
		return nil, err
	}
	var row record.Fetch
	next := func() (uint64, error) {
		for {
			if err := read(&row); err != nil {
				return 0, err
			}
			if key, ok := Document(poly, &row); ok {
				return key, nil
			}
		}
	}
	return SortInput("documents", merge.KeysOf(next), polynomial, mem)
}

// SortInput sorts keys of the polynomial into an Input.
func SortInput(name string, keys merge.KeyReader, polynomial uint64, mem int64) (*Input, error) {
	return sortInput(name, keys, polynomial, mem, readAhead)
}

func sortInput(name string, keys merge.KeyReader, polynomial uint64, mem, ahead int64) (*Input, error) {
	f, err := merge.SortKeys(keys, mem, "", polynomial)
	if err != nil {
		return nil, err
	}
	r, err := f.Finish()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return fileInput(name, r, ahead, f.Close), nil
}

// setKinds are the kinds of stores that hold a set. Of a crawl folder the first is meant.
var setKinds = []string{"urls", Kind}

func openStore(dir string) (*Input, error) {
	var st *store.Store
	var err error
	for _, kind := range setKinds {
		if st, err = store.Open(dir, kind, Version, store.Options{}); !errors.Is(err, fault.WrongKind) {
			break
		}
	}
	if errors.Is(err, fault.Usage) { // no store, of any kind
		hint := ""
		if _, err := os.Stat(filepath.Join(dir, store.ShardsDir)); err == nil {
			hint = fmt.Sprintf("a crawl of several shards has a set in each: name %s/*/%s", fault.Quote(filepath.Join(dir, store.ShardsDir)), setKinds[0])
		}
		return nil, &fault.Error{Hint: hint, Class: fault.Usage, File: dir, Found: "no store here", Want: "a crawl folder, or the store of a set, of kind " + strings.Join(setKinds, " or ")}
	}
	if err != nil {
		return nil, err
	}
	m, err := st.Current()
	if err != nil {
		return nil, err
	}
	s, err := Load(st, m, Options{})
	if err != nil {
		return nil, err
	}
	hash := ""
	if st.Kind() == Kind {
		hash = hashOf(m)
	}
	in := &Input{Name: dir, Kind: st.Kind(), Polynomial: s.Polynomial(), Hash: hash, Count: s.Count(), open: s.All, check: s.Check, close: s.Close,
		describe: func() (any, error) { return Describe(st) }}
	if s, ok := s.(*runs); ok {
		in.files = merge.Set{}
		for _, r := range s.list {
			in.files = append(in.files, r.Reader)
		}
	}
	return in, nil
}

// Export writes the keys that produce gives, ascending, to path, which appears
// complete or not at all, as a fingerprint file, or as text if it is named *.txt
// or text is set; to stdout as text if path is "", and then only after
// produce has succeeded, so that damaged input leaves no output. Blocks are encoded by
// so many workers. It returns the number of keys.
func Export(path string, text bool, stdout io.Writer, polynomial uint64, workers int, produce func(merge.Dest) error) (uint64, error) {
	if path == "" || path == "-" {
		return exportText(stdout, polynomial, produce)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return 0, err
	}
	a, err := durable.CreateOutput(path)
	if err != nil {
		return 0, err
	}
	defer a.Abort()
	var n uint64
	if text || strings.HasSuffix(path, ".txt") {
		w := merge.NewTextWriter(a)
		if err = produce(w); err == nil {
			err = w.Flush()
		}
		n = w.Count()
	} else {
		w := fpfile.NewWriter(a, polynomial)
		w.SetWorkers(workers)
		if err = produce(w); err == nil {
			err = w.Finish()
		}
		n = w.Count()
	}
	if err != nil {
		return 0, err
	}
	return n, a.Commit()
}

// exportText writes text when produce has succeeded.
func exportText(out io.Writer, polynomial uint64, produce func(merge.Dest) error) (uint64, error) {
	k := merge.NewKeyFile("", polynomial)
	defer k.Close()
	if err := produce(k); err != nil {
		return 0, err
	}
	r, err := k.Finish()
	if err != nil {
		return 0, err
	}
	return r.Count(), merge.WriteText(out, r.All())
}
