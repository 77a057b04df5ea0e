package driver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/fault"
	"mercator/pkg/urlset"
)

// Spec is a crawl that is to be made. All of it is written into the crawl's folder.
type Spec struct {
	Seeds  []string // files of URLs, one a line; - is In
	In     io.Reader
	URLs   []string          // seeds by themselves
	Config string            // a crawl.toml to start from; "": one that explains all settings
	Preset []config.Pair     // settings that Set may change; a crawl that is there may have others
	Set    []config.Pair     // settings
	Files  map[string]string // further files of the folder, by name
}

// SeedsFile is the file of a crawl's seeds in its folder.
const SeedsFile = "seeds.txt"

// Make makes a crawl folder, whole or not at all. If the folder holds the same crawl already, made
// is false; if it holds another one, the error is fault.Usage and says what to do. warn is told of
// seeds that were taken as https, and of files that were edited since.
func Make(ctx context.Context, dir string, spec Spec, warn func(format string, args ...any)) (made bool, err error) {
	tmp, err := spec.check(dir, warn)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	taken, err := crawl.New(dir, func(to string) error {
		for _, name := range spec.names() {
			err := WriteFile(filepath.Join(to, name), func(out io.Writer) error {
				in, err := os.Open(filepath.Join(tmp, name))
				if err != nil {
					return err
				}
				defer in.Close()
				_, err = io.Copy(out, in)
				return err
			})
			if err != nil {
				return err
			}
		}
		p := processes{said: func(_, line string) { warn("%s", strings.ReplaceAll(line, to, filepath.Clean(dir))) }}
		_, err := p.run(ctx, Pipe{{"mckpt", "init", to, "--quiet"}})
		return err
	})
	if !taken {
		return err == nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err == nil {
		return false, spec.compare(tmp, dir, warn)
	}
	return false, &fault.Error{Class: fault.Usage, File: dir, Found: "a folder with files in it, and no crawl", Want: "a new one, or a crawl",
		Hint: fmt.Sprintf("name another folder; if it holds the crawl.toml of a crawl to be made, %q makes it", fault.Quote("mckpt", "init", dir))}
}

// check writes the files of a crawl into a temporary folder, so that what is wrong with them is
// found before anything is made. The caller removes the folder.
func (s Spec) check(dir string, warn func(format string, args ...any)) (tmp string, err error) {
	if tmp, err = os.MkdirTemp("", "mcrawl-*"); err != nil {
		return "", err
	}
	if err := s.write(tmp, warn); err != nil {
		os.RemoveAll(tmp)
		return "", renamed(err, func(text string) string { return strings.ReplaceAll(text, tmp, filepath.Clean(dir)) })
	}
	return tmp, nil
}

// names are the files that write makes.
func (s Spec) names() []string {
	return append([]string{config.Name, SeedsFile}, slices.Sorted(maps.Keys(s.Files))...)
}

// renamed is a fault with the folder's name in place of that of the temporary one.
func renamed(err error, rename func(string) string) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	g := *f
	g.File, g.Found, g.Hint = rename(f.File), rename(f.Found), rename(f.Hint)
	return &g
}

// write makes the files of a crawl that are there before its stores.
func (s Spec) write(dir string, warn func(format string, args ...any)) error {
	text, seeds := config.Preset(), s.Seeds
	var moved, pairs []config.Pair
	if s.Config != "" {
		given, err := config.Load(s.Config)
		if err != nil {
			return err
		}
		if text, err = os.ReadFile(s.Config); err != nil {
			return err
		}
		if moved, err = absolute(given); err != nil {
			return err
		}
		if len(s.URLs) == 0 && len(seeds) == 0 {
			if seeds, err = given.Setting("seeds"); err != nil {
				return err
			}
		}
	}
	for _, p := range append(slices.Clone(s.Preset), s.Set...) {
		key, err := config.KeyOf(p.Key)
		if err != nil {
			return err
		}
		if p.Key == "seeds" {
			return &fault.Error{Class: fault.Usage, Found: "the setting seeds", Want: "--seeds FILE", Hint: "seeds are copied into the crawl folder"}
		}
		if _, own := s.Files[p.Value]; key.Path && p.Value != "" && p.Value != key.Word && !own {
			if p.Value, err = filepath.Abs(p.Value); err != nil {
				return err
			}
		}
		pairs = append(pairs, p)
	}
	pairs = append(append(moved, pairs...), config.Pair{Key: "seeds", Value: SeedsFile})
	text, err := config.SetAll(text, pairs)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, config.Name)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		return err
	}
	for name, content := range s.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			return err
		}
	}
	conf, err := config.Load(path)
	if err != nil {
		return err
	}
	if err := s.copySeeds(filepath.Join(dir, SeedsFile), seeds, conf, warn); err != nil {
		return err
	}
	return conf.CheckPaths(dir)
}

// absolute are the settings that name a file, by names that hold in any folder.
func absolute(conf *config.Config) (pairs []config.Pair, err error) {
	for _, k := range config.Keys() {
		values, err := conf.Setting(k.Name)
		if err != nil {
			return nil, err
		}
		if !k.Path || k.Name == "seeds" || len(values) == 0 || values[0] == "" || values[0] == k.Word {
			continue
		}
		path, err := filepath.Abs(values[0])
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, config.Pair{Key: k.Name, Value: path})
	}
	return pairs, nil
}

// copySeeds writes the seeds into one file, each checked.
func (s Spec) copySeeds(to string, files []string, conf *config.Config, warn func(format string, args ...any)) error {
	form, err := conf.Canon()
	if err != nil {
		return err
	}
	if len(files)+len(s.URLs) == 0 {
		return &fault.Error{Class: fault.Usage, Found: "no seeds", Want: "files of URLs, one a line", Hint: "name one: --seeds seeds.txt"}
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	const most = 5 // notes
	notes := 0
	assumed := func(line, url string) {
		if notes++; notes <= most {
			warn("%s is taken as %s", line, url)
		}
	}
	if len(s.URLs) > 0 {
		if _, err := urlset.Seeds(out, strings.NewReader(strings.Join(s.URLs, "\n")), "", form, assumed); err != nil {
			var f *fault.Error
			if errors.As(err, &f) {
				f.Place = ""
			}
			return err
		}
	}
	for _, file := range files {
		if ext := filepath.Ext(file); ext == ".csv" || ext == ".tsv" || ext == ".jsonl" {
			path, err := filepath.Abs(file)
			if err != nil {
				return err
			}
			return &fault.Error{Class: fault.Usage, File: file, Found: "rows with columns", Want: "URLs, one a line",
				Hint: fmt.Sprintf("make the crawl with one of the URLs; before its first run, %q reads the rows instead", fault.Quote("mcrawl", "set", "FOLDER", "seeds="+path))}
		}
		in, err := s.open(file)
		if err != nil {
			return &fault.Error{Class: fault.Usage, File: file, Found: "no file of seed URLs here", Err: err}
		}
		_, err = urlset.Seeds(out, in, file, form, assumed)
		in.Close()
		if err != nil {
			return err
		}
	}
	if notes > most {
		warn("%d more without a scheme are taken as https", notes-most)
	}
	return out.Close()
}

// open opens a file of seeds; - is standard input.
func (s Spec) open(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(s.In), nil
	}
	return os.Open(file)
}

// compare refuses a crawl folder that is another crawl than the one written into tmp. The other
// files of the folder are for people to edit: a difference is a note.
func (s Spec) compare(tmp, dir string, warn func(format string, args ...any)) error {
	other := func(what, hint string) error {
		return &fault.Error{Class: fault.Usage, File: dir, Found: "a crawl " + what, Want: "a new folder, or the same crawl",
			Hint: fmt.Sprintf("%q goes on with it; %s; or name another folder", fault.Quote("mcrawl", "run", dir), hint)}
	}
	if same, err := sameFile(filepath.Join(tmp, SeedsFile), filepath.Join(dir, SeedsFile)); err != nil {
		return err
	} else if !same {
		return other("of other seeds", fmt.Sprintf("%q adds seeds", fault.Quote("mcrawl", "add", dir)+" URL..."))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if same, err := sameFile(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
			return err
		} else if !same {
			warn("%s was edited, or made with other flags: it counts as it is", filepath.Join(dir, name))
		}
	}
	want, err := config.Load(filepath.Join(tmp, config.Name))
	if err != nil {
		return err
	}
	have, err := config.Load(filepath.Join(dir, config.Name))
	if err != nil {
		return err
	}
	for _, p := range s.Set {
		a, err := want.Setting(p.Key)
		if err != nil {
			return err
		}
		b, err := have.Setting(p.Key)
		if err != nil {
			return err
		}
		if _, own := s.Files[p.Value]; own {
			continue // a file of ours: the crawl may have another by now
		}
		if !slices.Equal(a, b) {
			return other("whose "+p.Key+" is "+cmp.Or(strings.Join(b, ","), "not set"), fmt.Sprintf("%q changes it", fault.Quote("mcrawl", "set", dir, p.Key+"="+p.Value)))
		}
	}
	return nil
}

// sameFile reports whether two files have the same bytes; one that is not there has none.
func sameFile(a, b string) (bool, error) {
	var readers [2]io.Reader
	for i, name := range []string{a, b} {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			readers[i] = strings.NewReader("")
			continue
		}
		if err != nil {
			return false, err
		}
		defer f.Close()
		readers[i] = f
	}
	var bufs [2][64 << 10]byte
	for {
		n, err := io.ReadFull(readers[0], bufs[0][:])
		m, err2 := io.ReadFull(readers[1], bufs[1][:])
		if !bytes.Equal(bufs[0][:n], bufs[1][:m]) {
			return false, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return err2 == err, nil
		}
		if err = errors.Join(err, err2); err != nil {
			return false, err
		}
	}
}

// PrintMake writes the lines of a shell that do what Make does.
func PrintMake(w io.Writer, dir string, spec Spec, warn func(format string, args ...any)) error {
	tmp, err := spec.check(dir, warn)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fmt.Fprintf(w, "%s &&\n", fault.Quote("mkdir", "-p", dir))
	for _, name := range spec.names() {
		text, err := os.ReadFile(filepath.Join(tmp, name))
		if err != nil {
			return err
		}
		if name == config.Name && spec.Config == "" {
			text = withoutComments(text)
		}
		const end = "END-OF-FILE"
		fmt.Fprintf(w, "cat > %s <<'%s' &&\n%s%s\n", fault.Quote(filepath.Join(dir, name)), end, text, end)
	}
	_, err = fmt.Fprintln(w, Pipe{{"mckpt", "init", dir}})
	return err
}

// withoutComments leaves out what only explains, and tables that set nothing.
func withoutComments(text []byte) (out []byte) {
	var table []byte
	for line := range bytes.Lines(text) {
		switch {
		case len(bytes.TrimSpace(line)) == 0 || line[0] == '#':
		case line[0] == '[':
			table = line
		default:
			out = append(append(out, table...), line...)
			table = nil
		}
	}
	return out
}
