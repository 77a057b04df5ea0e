// Package mfpset answers the content-seen test from a set of fingerprints.
package mfpset

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/cli"
	"mercator/pkg/command/sets"
	"mercator/pkg/config"
	"mercator/pkg/folder/ownstage"
	"mercator/pkg/folder/stage"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
)

const about = `Keep a set of document fingerprints, and mark documents that were seen before. The set is a store, such as crawl/content.`

type grammar struct {
	cli.Common `embed:""`

	Mark   markCmd   `cmd:"" help:"Mark documents that were seen before, and add the others to the set."`
	Add    addCmd    `cmd:"" help:"Add keys to the set."`
	Test   testCmd   `cmd:"" help:"Say for each key whether it is in the set."`
	Build  buildCmd  `cmd:"" help:"Make a fingerprint file, without a store."`
	Dump   dumpCmd   `cmd:"" help:"Print the set, one key a line."`
	Stat   statCmd   `cmd:"" help:"Describe the set, as JSON."`
	Check  checkCmd  `cmd:"" help:"Read the whole set and verify it."`
	Fp     fpCmd     `cmd:"" help:"Print the fingerprint of each file."`
	Create createCmd `cmd:"" aliases:"new" help:"Make an empty set."`
}

// set is the store that a verb reads.
type set struct {
	Store string `arg:"" help:"The set, such as crawl/content."`
}

func (s set) open(std *cli.Std, flags cli.TxnFlags) (*store.Store, error) {
	return std.OpenStore(s.Store, fpset.Kind, fpset.Version, flags)
}

type markCmd struct {
	set
	Files []string `arg:"" optional:"" help:"Fetch records; default: standard input."`
	config.ContentProgram
	config.ProgramTime
	cli.TxnFlags
	cli.Output
}

// Help is part of --help.
func (markCmd) Help() string {
	return `The same records are written in the same order, with the column duplicate set.
The set changes only after all input was read.

Examples:
  mfetch crawl/fetch --txn r1 urls.arrows.zst |
    mfpset mark crawl/content --txn r1 -o marked.arrows.zst`
}

func (c *markCmd) Run(ctx context.Context, std *cli.Std) error {
	own := ownstage.Program{Setting: "stages.content", Command: c.Content, Timeout: c.ProgramTimeout}
	st, err := own.Open(c.Store, fpset.Kind, fpset.Version, std.StoreOptions(c.TxnFlags))
	if err != nil {
		return err
	}
	in, err := cli.OpenRecords[record.Fetch](std, c.Files)
	if err != nil {
		return err
	}
	sinks, err := std.Sinks(c.Output)
	if err != nil {
		return err
	}
	progress := std.StartProgress("records", 0)
	defer progress.Done()
	spec := stage.Spec{Name: "mfpset mark", Verb: own.Verb("mark"), Store: st, Txn: c.Txn}
	return cli.RunStage(ctx, std, spec, in, sinks, func(ctx context.Context, b *stage.Batch[record.Fetch, record.Fetch]) error {
		if own.Command != "" {
			return ownstage.Run(ctx, b, st, c.Txn, own, ownstage.Rows[record.Fetch, record.Fetch]{Convert: func(in, out *record.Fetch) bool {
				*out, out.Duplicate = *in, false
				return fpset.IsDocument(in)
			}, Columns: ownstage.OfContent, Progress: progress.Add})
		}
		stats, err := fpset.Mark(ctx, st, b, std.MemoryLimit()/8, fpset.Options{Workers: std.Threads()}, progress.Add)
		std.Stat("documents", stats)
		return err
	})
}

type addCmd struct {
	set
	keys
	cli.TxnFlags
}

// Help is part of --help.
func (addCmd) Help() string {
	return `Examples:
  mfpset add crawl/content other-crawl/content
  mfpset add crawl/content --txn known fetched.arrows.zst`
}

func (c *addCmd) Run(ctx context.Context, std *cli.Std) error {
	st, err := c.open(std, c.TxnFlags)
	if err != nil {
		return err
	}
	polynomial, err := fpset.PolynomialOf(st)
	if err != nil {
		return err
	}
	in, err := c.inputs(std, polynomial)
	if err != nil {
		return err
	}
	return sets.Add(ctx, std, st, c.Txn, in)
}

// keys are fingerprints to read.
type keys struct {
	Files []string `arg:"" optional:"" help:"Fetch records, *.fps, sets or *.txt; default: standard input."`
	Text  bool     `help:"The input is text, 16 hexadecimal digits a line."`
}

// inputs opens what is given; text and records become keys of the polynomial; 0
// stands for that of the sets, or Mercator's.
func (k *keys) inputs(std *cli.Std, polynomial uint64) ([]*fpset.Input, error) {
	mem := std.MemoryLimit() / 4
	for i, f := range k.Files {
		k.Files[i] = store.Within(f, fpset.Kind, store.Options{})
	}
	if len(k.Files) == 0 && k.Text {
		return fpset.OpenInputs([]string{"-"}, true, polynomial, std.In, mem)
	}
	if k.Text || len(k.Files) > 0 && fpset.IsSet(k.Files[0]) {
		return fpset.OpenInputs(k.Files, k.Text, polynomial, std.In, mem)
	}
	for _, f := range k.Files {
		if fpset.IsSet(f) {
			return nil, &fault.Error{Class: fault.Usage, File: f, Found: "a set beside records", Want: "one kind of input", Hint: "give them one after the other"}
		}
	}
	in, err := cli.OpenRecords[record.Fetch](std, k.Files)
	if err != nil {
		return nil, err
	}
	input, err := fpset.Documents(in.Read, cmp.Or(polynomial, fingerprint.Polynomial), mem)
	if err != nil {
		return nil, err
	}
	return []*fpset.Input{input}, nil
}

type testCmd struct {
	set
	Files []string `arg:"" optional:"" help:"Text of keys, *.fps or sets; default: standard input."`
	JSON  bool     `help:"Print JSON lines."`
}

// Help is part of --help.
func (testCmd) Help() string {
	return `A line is "seen" or "unseen", a tab, and the key. The exit code is 0 if all were
seen, 6 if not.

Examples:
  mfpset dump a | mfpset test b
  mfpset test crawl/content keys.fps --json | jq -r 'select(.seen | not).key'`
}

func (c *testCmd) Run(ctx context.Context, std *cli.Std) error {
	st, err := c.open(std, cli.TxnFlags{})
	if err != nil {
		return err
	}
	set, err := fpset.LoadCurrent(st, fpset.Options{Workers: std.Threads()})
	if err != nil {
		return err
	}
	defer set.Close()
	hash, err := fpset.HashOf(st)
	if err != nil {
		return err
	}
	if len(c.Files) == 0 {
		c.Files = []string{"-"}
	}
	in := &keyFiles{std: std, polynomial: set.Polynomial(), hash: hash, names: c.Files}
	defer in.close()
	out := bufio.NewWriterSize(std.Out, 64<<10)
	var line []byte
	err = fpset.Test(ctx, set, fpset.Query[uint64]{
		Next: in.next,
		Key:  func(key *uint64) uint64 { return *key },
		Answer: func(key *uint64, seen bool) error {
			if c.JSON {
				line = append(fingerprint.Append(append(line[:0], `{"key":"`...), *key), `","seen":`...)
				line = append(strconv.AppendBool(line, seen), "}\n"...)
			} else {
				line = append(append(line[:0], fpset.Word(seen)...), '\t')
				line = append(fingerprint.Append(line, *key), '\n')
			}
			_, err := out.Write(line)
			return err
		},
		Flush: out.Flush,
	})
	std.Stat("set", fpset.UsageOf(set))
	return err
}

// keyFiles reads the keys of files one after another: text, and sets.
type keyFiles struct {
	std        *cli.Std
	polynomial uint64
	hash       string   // function that made content_fp of the documents
	names      []string // not yet opened
	text       func() (uint64, error)
	set        merge.Source
	keys       []uint64 // of set
	close1     func() error
}

func (f *keyFiles) next(key *uint64) (err error) {
	for {
		switch {
		case len(f.keys) > 0:
			*key, f.keys = f.keys[0], f.keys[1:]
			return nil
		case f.set != nil:
			f.keys, err = f.set.Block()
		case f.text != nil:
			if *key, err = f.text(); err == nil {
				return nil
			}
		case len(f.names) == 0:
			return io.EOF
		default:
			err = f.open(f.names[0])
			f.names = f.names[1:]
		}
		if err == io.EOF {
			err = f.close()
		}
		if err != nil {
			return err
		}
	}
}

func (f *keyFiles) open(name string) error {
	if name != "-" && fpset.IsSet(name) && !strings.HasSuffix(name, ".txt") {
		in, err := fpset.OpenInputs([]string{store.Within(name, fpset.Kind, store.Options{})}, false, 0, nil, 0)
		if err != nil {
			return err
		}
		f.close1 = in[0].Close
		if err := in[0].CheckKind(fpset.Kind); err != nil {
			return err
		}
		if in[0].Polynomial != f.polynomial {
			return fpset.OtherPolynomial(name, in[0].Polynomial, f.polynomial)
		}
		if err := in[0].CheckHash(f.hash); err != nil {
			return err
		}
		f.set, err = in[0].Source()
		return err
	}
	in, err := f.std.OpenLines([]string{name})
	if err != nil {
		return err
	}
	f.close1 = in.Close
	if name == "-" {
		name = fpset.StandardInput
	}
	f.text = merge.TextKeys(in, name)
	return nil
}

func (f *keyFiles) close() error {
	f.set, f.text = nil, nil
	if f.close1 == nil {
		return nil
	}
	closer := f.close1
	f.close1 = nil
	return closer()
}

type buildCmd struct {
	keys
	Output     string         `short:"o" required:"" placeholder:"FILE" help:"Fingerprint file to write; text if it is named *.txt."`
	Polynomial cli.Polynomial `placeholder:"HEX" help:"Polynomial of the keys (default: Mercator's)."`
}

// Help is part of --help.
func (buildCmd) Help() string {
	return `Examples:
  sort -R keys.txt | mfpset build --text -o keys.fps
  mfpset build -o content.fps crawl/content`
}

func (c *buildCmd) Run(std *cli.Std) error {
	in, err := c.inputs(std, uint64(c.Polynomial))
	if err != nil {
		return err
	}
	defer fpset.CloseInputs(in)
	return sets.Write(std, c.Output, false, merge.OpUnion, in)
}

type dumpCmd struct{ sets.Dump }

func (c *dumpCmd) Run(std *cli.Std) error { return c.Write(std, fpset.Kind) }

type statCmd struct{ sets.Stat }

func (c *statCmd) Run(std *cli.Std) error { return c.Print(std, fpset.Kind) }

type checkCmd struct{ sets.Check }

func (c *checkCmd) Run(std *cli.Std) error { return c.Read(std, fpset.Kind) }

type fpCmd struct {
	Files      []string       `arg:"" optional:"" help:"Files; default: standard input."`
	Lines      bool           `help:"Print the fingerprint of each line, and the line."`
	Polynomial cli.Polynomial `placeholder:"HEX" help:"Irreducible polynomial (default: Mercator's)."`
}

// Help is part of --help.
func (fpCmd) Help() string {
	return `A line is the 64-bit Rabin fingerprint, a tab, and the file's name.

Examples:
  printf abc | mfpset fp                  # 3b6e25bd6e0e10fb
  mfpset fp --lines urls.txt`
}

func (c *fpCmd) Run(std *cli.Std) error {
	poly, err := fingerprint.NewPoly(c.Polynomial.Or(fingerprint.Polynomial))
	if err != nil {
		return err
	}
	if c.Lines {
		in, err := std.OpenLines(c.Files)
		if err != nil {
			return err
		}
		defer in.Close()
		return lines(in, std.Out, poly)
	}
	if len(c.Files) == 0 {
		c.Files = []string{"-"}
	}
	for _, name := range c.Files {
		v, err := fingerprintFile(std, name, poly)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(std.Out, "%s\t%s\n", fingerprint.Format(v), cli.Printable(name)); err != nil {
			return err
		}
	}
	return nil
}

// fingerprintFile reads a file, or standard input for "-", to its end.
func fingerprintFile(std *cli.Std, name string, poly *fingerprint.Poly) (uint64, error) {
	in := std.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		in = f
	}
	h := poly.New()
	_, err := io.Copy(h, in)
	return h.Sum64(), err
}

// maxLine bounds a line that is fingerprinted, in bytes.
const maxLine = 16 << 20

// lines prints the fingerprint of each line.
func lines(in io.Reader, out io.Writer, poly *fingerprint.Poly) error {
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxLine)
	w := bufio.NewWriter(out)
	n := 0
	for ; s.Scan(); n++ {
		if _, err := fmt.Fprintf(w, "%s\t%s\n", fingerprint.Format(poly.Of(s.Bytes())), s.Bytes()); err != nil {
			return err
		}
	}
	err := s.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = &fault.Error{Class: fault.Corrupt, File: "input", Place: fmt.Sprintf("line %d", n+1), Found: "a longer line", Want: fmt.Sprintf("at most %d bytes", maxLine),
			Hint: "without --lines the fingerprint of a whole file is printed, of any length"}
	}
	return errors.Join(err, w.Flush())
}

type createCmd struct {
	Store string `arg:"" help:"Folder to make."`
	config.ContentSet
	config.NewSet
	config.ContentHashFlag
}

// Help is part of --help.
func (createCmd) Help() string {
	return `A whole crawl is made by "mckpt init".

Examples:
  mfpset create content
  mfpset create --polynomial random content
  mfpset create small --impl bloom --bloom-size 4M`
}

func (c *createCmd) Run(std *cli.Std) error {
	with, err := sets.Options(std, c.Impl, c.NewSet)
	if err != nil {
		return err
	}
	with.ContentHash = c.ContentHash
	return fpset.Create(c.Store, with, store.Options{})
}

// Command is mfpset.
var Command = cli.Command{Name: "mfpset", About: about, Memory: 64 << 20, Setting: "memory.stages", Grammar: func() any { return &grammar{} }}
