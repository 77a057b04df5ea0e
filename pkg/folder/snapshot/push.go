package snapshot

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
)

const (
	ownDir   = crawl.PushDir
	stageDir = "stage" // in it: what is being sent or was received
	idFile   = "ID"    // in it: identity of the crawl folder; after a pull, also that of the folder before, and the snapshot's number
	sentFile = "SENT"  // in it: what the folder has published, for each remote

	sentMagic = "mercator-sent"

	batchBytes = 1 << 30 // of files that are sent or received at a time
	batchFiles = 5000
)

// Options of Push and Pull.
type Options struct {
	LockWait time.Duration     // how long another push or pull is waited for
	Now      time.Time         //
	Check    bool              // of Push: read back all that is at the remote, and send again what is damaged
	Progress func(bytes int64) // gets the bytes sent or received; may be nil

	Secret  func(path string) (what string, err error) // of Push: what a file that no store holds has that is left out, such as "passwords"; "": nothing. nil: no file has
	Arrived func() error                               // of Pull: is called when all files are there, before the folder is a crawl; may be nil

	remote remote // of tests; nil: as it is spelled
}

// Done is the result of a push or a pull.
type Done struct {
	Snapshot   uint64   `json:"snapshot"`
	Checkpoint uint64   `json:"checkpoint"`
	Round      string   `json:"round,omitempty"`
	Files      int      `json:"files"` // of the crawl
	Bytes      int64    `json:"bytes"`
	Copied     int      `json:"copied_files"` // sent or received
	CopiedSize int64    `json:"copied_bytes"`
	Removed    int      `json:"removed_files"`      // at the remote
	Damaged    int      `json:"damaged_files"`      // at the remote, sent again
	Left       []string `json:"left_out,omitempty"` // files with names, or of kinds, that are not copied
	Secret     []string `json:"secret,omitempty"`   // files that are not copied since they hold secrets, with what these are
	Kept       []string `json:"kept,omitempty"`     // files of rounds that the crawl has lost and the copy has
	Lost       []string `json:"lost,omitempty"`     // those that the copy has not either
}

// copier is one push or pull.
type copier struct {
	dir      string // the crawl folder
	own      string
	stageDir string // absolute: other programs get it
	opt      Options
	to       remote
	name     string // of the remote
	done     *Done

	have map[string]int64 // at the remote

	sent map[string][]published // by remote, as in SENT

	staged      []string // in the stage, not sent yet
	stagedBytes int64
	put         bool // something was sent
}

// begin takes the lock of the crawl's copier, and empties the stage.
func begin(ctx context.Context, dir, spelling, what string, opt Options) (*copier, func(), error) {
	dir = filepath.Clean(dir)
	own := filepath.Join(dir, ownDir)
	if err := durable.MkdirAll(durable.OS, own); err != nil {
		return nil, nil, err
	}
	lock, err := store.Lock(ctx, durable.OS, filepath.Join(own, store.LockFile), what, opt.LockWait)
	if err != nil {
		return nil, nil, err
	}
	c := &copier{dir: dir, own: own, opt: opt, name: spelling, done: &Done{}}
	if c.stageDir, err = filepath.Abs(filepath.Join(own, stageDir)); err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = os.RemoveAll(c.stage()) // the next one does it again
		_ = lock.Close()
	}
	if c.to = opt.remote; c.to == nil {
		c.to, err = openRemote(spelling, own, lock.(*os.File))
	}
	if err == nil {
		err = os.RemoveAll(c.stage())
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return c, end, nil
}

func (c *copier) stage() string { return c.stageDir }

// makeStage makes the stage, which is for this user alone: files there do not have their modes yet.
func (c *copier) makeStage() error { return os.MkdirAll(c.stage(), 0o700) }

func (c *copier) staging(name string) string {
	return filepath.Join(c.stage(), filepath.FromSlash(name))
}

func (c *copier) local(path string) string { return filepath.Join(c.dir, filepath.FromSlash(path)) }

// newest is the snapshot of the highest number at the remote that is whole; nil if there is none.
func (c *copier) newest(ctx context.Context) (*List, uint64, error) {
	var numbers []uint64
	for name := range c.have {
		if m := listShape().FindStringSubmatch(name); m != nil {
			if n, err := strconv.ParseUint(m[1], 10, 53); err == nil && n > 0 {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	var damage error
	for _, n := range slices.Backward(numbers) {
		data, err := c.read(ctx, listName(n))
		if err != nil {
			return nil, 0, err
		}
		l, err := decode(c.name+"/"+listName(n), data)
		if err == nil && l.Number != n {
			err = &fault.Error{Class: fault.Corrupt, File: c.name + "/" + listName(n), Place: "number", Found: strconv.FormatUint(l.Number, 10), Want: strconv.FormatUint(n, 10)}
		}
		if err == nil {
			l.sum = store.Sum(data)
			return l, numbers[len(numbers)-1], nil
		}
		if errors.Is(err, fault.Version) {
			return nil, 0, err
		}
		damage = cmp.Or(damage, err)
	}
	if damage != nil {
		return nil, 0, &fault.Error{Class: fault.ClassOf(damage), Err: damage, Hint: "no snapshot there is whole: where the crawl is still there, push to another folder, or empty this one"}
	}
	return nil, 0, nil
}

// read reads a small file at the remote.
func (c *copier) read(ctx context.Context, name string) ([]byte, error) {
	if err := c.makeStage(); err != nil {
		return nil, err
	}
	if err := c.to.get(ctx, []string{name}, c.stage()); err != nil {
		return nil, err
	}
	defer os.Remove(c.staging(name))
	return durable.ReadFile(durable.OS, c.staging(name), store.MaxFile)
}

// errMoved: the crawl has changed while it was copied.
var errMoved = errors.New("a file of the crawl was deleted while it was copied")

// Push brings the copy of a crawl at a remote to the crawl's checkpoints. Rounds may go on meanwhile.
func Push(ctx context.Context, folder *crawl.Crawl, spelling string, opt Options) (*Done, error) {
	if IsFolder(spelling) && within(spelling, folder.Dir()) {
		return nil, &fault.Error{Class: fault.Usage, File: spelling, Found: "a folder in the crawl's", Want: "one outside", Hint: "best on another disk"}
	}
	c, end, err := begin(ctx, folder.Dir(), spelling, "mckpt push", opt)
	if err != nil {
		return nil, err
	}
	defer end()
	const tries = 5 // a gc may delete what the list names; then the list is made anew
	for try := 1; ; try++ {
		err := c.push(ctx, folder)
		if !errors.Is(err, errMoved) || try == tries {
			return c.done, err
		}
	}
}

// within reports whether a folder is, or lies in, another.
func within(inner, outer string) bool {
	i, err := filepath.Abs(inner)
	if err != nil {
		return false
	}
	o, err := filepath.Abs(outer)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(o, i)
	return err == nil && filepath.IsLocal(rel)
}

func (c *copier) push(ctx context.Context, folder *crawl.Crawl) (err error) {
	if err := os.RemoveAll(c.stage()); err != nil {
		return err
	}
	c.staged, c.stagedBytes = nil, 0
	if err := c.listRemote(ctx); err != nil {
		return err
	}
	if err := c.readSent(); err != nil {
		return err
	}
	last, highest, err := c.newest(ctx)
	if err != nil {
		return err
	}
	if err := c.notForeign(last); err != nil {
		return err
	}
	if len(c.have) == 0 && len(c.sent[c.key()]) > 0 {
		return &fault.Error{Class: fault.Usage, File: c.name, Found: "no file", Want: "the snapshots that this crawl has pushed",
			Hint: "mount the disk, or, to begin anew there: " + fault.Quote("rm", filepath.Join(c.own, sentFile))}
	}
	inv, err := folder.Inventory(ctx)
	if err != nil {
		return err
	}
	next := &List{Number: highest + 1, Made: c.opt.Now.UTC().Format(time.RFC3339), Current: inv.Current}
	if err := c.identify(last, next); err != nil {
		return err
	}
	if c.opt.Check {
		if err := c.check(ctx, last); err != nil {
			return err
		}
	}
	if err := c.listFiles(ctx, inv, last.byPath(), next); err != nil {
		return err
	}
	if err := c.send(ctx); err != nil {
		return err
	}
	needed := next.objects()
	if err := c.arrived(ctx, needed); err != nil {
		return err
	}
	same, err := next.same(last)
	if err != nil {
		return err
	}
	if !same {
		if err := c.publish(ctx, last, next); err != nil {
			return err
		}
		last = next
	} else if c.sent[c.key()] == nil {
		if err := c.writeSent(last); err != nil {
			return err
		}
	}
	if err := c.tidy(ctx, last, needed); err != nil {
		return err
	}
	c.done.Snapshot, c.done.Checkpoint, c.done.Round, c.done.Left = last.Number, last.Current.Checkpoint, last.Current.Txn, inv.Left
	c.done.Files, c.done.Bytes = len(last.Files), 0
	for _, f := range last.Files {
		c.done.Bytes += f.Length
	}
	return nil
}

// listFiles makes the list of a snapshot: what the crawl has, and of what it has no more what the copy kept. before is the list of the last snapshot.
func (c *copier) listFiles(ctx context.Context, inv *crawl.Inventory, before map[string]*File, next *List) error {
	c.done.Secret = nil
	for _, f := range inv.Files {
		if c.opt.Secret != nil && f.Class == crawl.Data && f.Sum == "" {
			what, err := c.opt.Secret(f.OnDisk)
			if err != nil {
				return err
			}
			if what != "" {
				c.done.Secret = append(c.done.Secret, f.Path+" ("+what+")")
				continue
			}
		}
		file, err := c.file(ctx, f, before[f.Path])
		if errors.Is(err, fs.ErrNotExist) || f.Round && errors.Is(err, fault.Corrupt) && c.restored(inv) {
			err = fmt.Errorf("%w: %w", errMoved, err)
		}
		if err != nil {
			return err
		}
		next.Files = append(next.Files, *file)
	}
	c.done.Kept, c.done.Lost = nil, nil
	for _, f := range inv.Gone {
		if had := f.Length == 0 && before[f.Path] != nil || c.at(f.Path, Part{f.Length, f.Sum}); had && validPath(f.Path) {
			next.Files = append(next.Files, File{Path: f.Path, Length: f.Length, Sum: f.Sum})
			c.done.Kept = append(c.done.Kept, f.Path)
		} else {
			c.done.Lost = append(c.done.Lost, f.Path)
		}
	}
	slices.SortFunc(next.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// arrived refuses a remote where one of the objects, or a part of it, is not there after it was sent.
func (c *copier) arrived(ctx context.Context, needed map[string]int64) error {
	if c.put {
		if err := c.listRemote(ctx); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		if size, ok := c.have[name]; !ok || size != needed[name] {
			found := "missing"
			if ok {
				found = fmt.Sprintf("%d bytes", size)
			}
			return &fault.Error{File: c.name + "/" + name, Found: found + " after it was sent", Want: fmt.Sprintf("%d bytes", needed[name]), Hint: "the snapshot before is kept; the same command goes on"}
		}
	}
	return nil
}

// restored reports whether the crawl has gone back since it was listed: another file may stand in the place of a round's.
func (c *copier) restored(inv *crawl.Inventory) bool {
	now, err := store.ReadCurrent(durable.OS, c.dir)
	return err == nil && now.Epoch != inv.Current.Epoch
}

// listRemote lists the remote. It passes by a folder in it that has snapshots of its own: that is another copy.
func (c *copier) listRemote(ctx context.Context) (err error) {
	if c.have, err = c.to.list(ctx); err != nil {
		return err
	}
	if c.have == nil {
		c.have = map[string]int64{}
	}
	others := map[string]bool{}
	for name := range c.have {
		if dir, base := path.Split(name); dir != "" && listShape().MatchString(base) {
			others[dir] = true
		}
	}
	maps.DeleteFunc(c.have, func(name string, _ int64) bool {
		for i, r := range name {
			if r == '/' && others[name[:i+1]] {
				return true
			}
		}
		return false
	})
	return nil
}

// published is a snapshot that this folder has published, or was about to when it was killed.
type published struct {
	Number uint64 `json:"number"`
	Sum    string `json:"sum"` // xxh3-128 of its list
}

// key names the remote in SENT.
func (c *copier) key() string {
	if IsFolder(c.name) {
		if abs, err := filepath.Abs(c.name); err == nil {
			return abs
		}
	}
	return strings.TrimRight(c.name, "/")
}

func (c *copier) readSent() error {
	c.sent = map[string][]published{}
	file := filepath.Join(c.own, sentFile)
	data, err := durable.ReadFile(durable.OS, file, store.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = store.Unseal(file, sentMagic, data, &c.sent)
	}
	if store.Damaged(err) {
		return &fault.Error{Class: fault.ClassOf(err), Err: err, Hint: "if no other folder pushes this crawl: " + fault.Quote("rm", file)}
	}
	return err
}

// writeSent notes which snapshots may be the last at the remote from now on; nil is passed by.
func (c *copier) writeSent(lists ...*List) error {
	var states []published
	for _, l := range lists {
		if l != nil {
			states = append(states, published{l.Number, l.sum})
		}
	}
	c.sent[c.key()] = states
	data, err := store.Seal(sentMagic, c.sent)
	if err != nil {
		return err
	}
	return durable.WriteFile(durable.OS, filepath.Join(c.own, sentFile), data)
}

// knows reports whether this folder has published a snapshot. A folder of an earlier version has noted none.
func (c *copier) knows(l *List) bool {
	for _, states := range c.sent {
		if slices.Contains(states, published{l.Number, l.sum}) {
			return true
		}
	}
	return len(c.sent) == 0
}

// notForeign refuses a folder that holds other files and no snapshot.
func (c *copier) notForeign(last *List) error {
	if last != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.have)) {
		if !ours().MatchString(name) {
			return &fault.Error{Class: fault.Usage, File: c.name, Found: "files that are no snapshot, such as " + name, Want: "an empty folder, or none", Hint: "name a folder of its own"}
		}
	}
	return nil
}

// identify gives next the identity of the crawl folder, and refuses a remote that belongs to another.
func (c *copier) identify(last, next *List) error {
	id, from, number, err := c.identity()
	if errors.Is(err, fs.ErrNotExist) {
		id, err = newIdentity(c.own, "", 0)
	}
	if err != nil {
		return err
	}
	next.Crawl, next.From = id, from
	if last == nil {
		return nil
	}
	refuse := func(found, hint string) error {
		return &fault.Error{Class: fault.Conflict, File: c.name, Place: fmt.Sprintf("snapshot %d", last.Number), Found: found, Hint: hint}
	}
	const elsewhere = "name another folder for the snapshots of this crawl"
	switch {
	case last.Crawl == id:
	case from != "" && last.Crawl == from && last.Number == number:
	case from != "" && last.Crawl == from:
		return refuse(fmt.Sprintf("the crawl that this one was pulled from goes on elsewhere: it has pushed since snapshot %d", number), "stop one of the two; "+elsewhere)
	case last.From == id:
		return refuse("another folder has taken this crawl over", "stop one of the two; "+elsewhere)
	default:
		return refuse("it is of another crawl", elsewhere)
	}
	if l, n := last.Current, next.Current; l.Epoch > n.Epoch || l.Last > n.Last {
		return refuse(fmt.Sprintf("epoch %d and checkpoint %d, newer than the crawl, which is at epoch %d and checkpoint %d", l.Epoch, l.Last, n.Epoch, n.Last),
			"make a crawl of it: "+fault.Quote("mckpt", "pull", c.name, "NEW"))
	}
	if last.Crawl == id && !c.knows(last) {
		return refuse("pushed by another folder of the same identity, such as one made by cp -a", fmt.Sprintf("stop one of the two; %s; if there is only this one: %s", elsewhere, fault.Quote("rm", filepath.Join(c.own, sentFile))))
	}
	return nil
}

func (c *copier) identity() (id, from string, number uint64, err error) {
	file := filepath.Join(c.own, idFile)
	data, err := durable.ReadFile(durable.OS, file, 256)
	if err != nil {
		return "", "", 0, err
	}
	fields := strings.Fields(string(data))
	ok := len(fields) == 1 || len(fields) == 3
	for i, f := range fields {
		if i < 2 {
			ok = ok && store.IsSum(f)
		}
	}
	if ok && len(fields) == 3 {
		from = fields[1]
		number, err = strconv.ParseUint(fields[2], 10, 53)
	}
	if !ok || err != nil {
		return "", "", 0, &fault.Error{Class: fault.Corrupt, File: file, Found: fmt.Sprintf("%.80q", data), Want: "the crawl's identity, 32 hex digits",
			Hint: "remove the file, and push to another folder"}
	}
	return fields[0], from, number, nil
}

func newIdentity(own, from string, number uint64) (string, error) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	id := hex.EncodeToString(b[:])
	line := id
	if from != "" {
		line = fmt.Sprintf("%s %s %d", id, from, number)
	}
	return id, durable.WriteFile(durable.OS, filepath.Join(own, idFile), []byte(line+"\n"))
}

// at reports whether a part is at the remote.
func (c *copier) at(path string, p Part) bool {
	size, ok := c.have[object(path, p)]
	return ok && size == p.Length
}

// file makes the entry of a file, and stages what the remote lacks of it.
func (c *copier) file(ctx context.Context, f crawl.CrawlFile, before *File) (*File, error) {
	file := &File{Path: f.Path, Length: f.Length, Sum: f.Sum, Link: f.Link}
	switch {
	case f.Link != "":
		return c.growing(ctx, file, f, before)
	case f.Grows:
		return nil, &fault.Error{Class: fault.Corrupt, File: c.local(f.OnDisk), Found: "a growing file without a chained checksum"}
	case f.Sum != "":
		if f.Length == 0 || c.at(f.Path, Part{f.Length, f.Sum}) {
			return file, nil
		}
		if f.Round { // a restore may move it while it is sent
			part, err := c.cut(ctx, f, 0, f.Length, nil)
			if err == nil && part.Sum != f.Sum {
				err = c.damaged(f, "checksum "+part.Sum, f.Sum)
			}
			return file, err
		}
		_, err := c.whole(ctx, f, f.Sum, io.Discard)
		return file, err
	}
	info, err := os.Lstat(c.local(f.OnDisk))
	if err == nil && !info.Mode().IsRegular() { // since it was listed
		err = errMoved
	}
	if err != nil {
		return nil, err
	}
	file.Length, file.Modified, file.Mode = info.Size(), info.ModTime().UnixNano(), uint32(info.Mode().Perm())
	if before != nil && before.Link == "" && before.Length == file.Length && before.Modified == file.Modified && (file.Length == 0 || c.at(f.Path, Part{file.Length, before.Sum})) {
		file.Sum = before.Sum
		return file, nil
	}
	// What people or drivers may replace while it is sent is copied first.
	part, err := c.cut(ctx, f, 0, -1, nil)
	if err != nil {
		return nil, err
	}
	file.Length, file.Sum = part.Length, part.Sum
	return file, nil
}

// whole stages a file that grows no more, as a link, after a look at its bytes, unless it is at the remote. also gets them too.
// sum is the checksum that a manifest has; "": it has none.
func (c *copier) whole(ctx context.Context, f crawl.CrawlFile, sum string, also io.Writer) (p Part, err error) {
	in, err := os.Open(c.local(f.OnDisk))
	if err != nil {
		return p, err
	}
	defer in.Close()
	hash := xxh3.New()
	if p.Length, err = io.Copy(io.MultiWriter(hash, also), ctxReader{ctx, in}); err != nil {
		return p, err
	}
	p.Sum = store.HexSum(hash)
	if p.Length != f.Length || sum != "" && p.Sum != sum {
		return p, c.damaged(f, fmt.Sprintf("%d bytes, checksum %s", p.Length, p.Sum), strings.TrimSuffix(fmt.Sprintf("%d, %s", f.Length, sum), ", "))
	}
	if c.at(f.Path, p) {
		return p, nil
	}
	return p, c.link(ctx, f, p)
}

func (c *copier) damaged(f crawl.CrawlFile, found, want string) error {
	says, hint := "a manifest", "the snapshot before is kept; see all damage: "+fault.Quote("mckpt", "verify", c.dir)
	if f.Round {
		says = "a checkpoint"
		hint = "move the file out of the crawl folder, and the push goes on with a warning; or, if a restore was killed: " + fault.Quote("mckpt", "rounds", c.dir)
	}
	return &fault.Error{Class: fault.Corrupt, File: c.local(f.OnDisk), Found: found, Want: want + ", as " + says + " says", Hint: hint}
}

// link stages a whole file.
func (c *copier) link(ctx context.Context, f crawl.CrawlFile, p Part) error {
	to := c.staging(object(f.Path, p))
	from, err := filepath.Abs(c.local(f.OnDisk))
	if err == nil {
		err = c.makeStage()
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o777)
	}
	if err == nil {
		err = os.Symlink(from, to)
	}
	if err != nil {
		return err
	}
	return c.addStaged(ctx, f.Path, p)
}

// addStaged counts what was staged, and sends when it is much.
func (c *copier) addStaged(ctx context.Context, path string, p Part) error {
	c.staged = append(c.staged, object(path, p))
	c.stagedBytes += p.Length
	c.done.Copied++
	c.done.CopiedSize += p.Length
	if len(c.staged) >= batchFiles || c.stagedBytes >= batchBytes {
		return c.send(ctx)
	}
	return nil
}

// send puts what is staged at the remote.
func (c *copier) send(ctx context.Context) error {
	if len(c.staged) == 0 {
		return nil
	}
	c.put = true
	if err := c.to.put(ctx, c.stage(), c.staged); err != nil {
		for _, name := range c.staged {
			if there, e := durable.Exists(durable.OS, c.staging(name)); e == nil && !there && ctx.Err() == nil {
				return fmt.Errorf("%w: %w", errMoved, err)
			}
		}
		return err
	}
	if c.opt.Progress != nil {
		c.opt.Progress(c.stagedBytes)
	}
	for _, name := range c.staged {
		c.have[name] = -1 // it is looked at when all is sent
	}
	c.staged, c.stagedBytes = nil, 0
	return os.RemoveAll(c.stage())
}

// cut stages a copy of the bytes from one offset to another (-1: the end), unless they are at the remote. Also, if not nil, gets
// them too.
func (c *copier) cut(ctx context.Context, f crawl.CrawlFile, from, to int64, also io.Writer) (Part, error) {
	in, err := c.open(f)
	if err != nil {
		return Part{}, err
	}
	defer in.Close()
	if _, err := in.Seek(from, io.SeekStart); err != nil {
		return Part{}, err
	}
	var src io.Reader = ctxReader{ctx, in}
	if to >= 0 {
		src = io.LimitReader(src, to-from)
	}
	if err := c.makeStage(); err != nil {
		return Part{}, err
	}
	out, err := os.Create(c.staging("part"))
	if err != nil {
		return Part{}, err
	}
	if st, err := in.Stat(); err == nil { // programs that copy go by it
		_ = out.Chmod(st.Mode().Perm() | 0o600)
	}
	defer os.Remove(out.Name()) // where it was moved, there is none
	defer out.Close()
	hash := xxh3.New()
	w := io.MultiWriter(out, hash)
	if also != nil {
		w = io.MultiWriter(out, hash, also)
	}
	n, err := io.Copy(w, src)
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return Part{}, err
	}
	p := Part{n, store.HexSum(hash)}
	if to >= 0 && n != to-from {
		return p, c.damaged(f, fmt.Sprintf("%d bytes", from+n), fmt.Sprintf("%d", to))
	}
	name := object(f.Path, p)
	if n == 0 || c.at(f.Path, p) || slices.Contains(c.staged, name) {
		return p, nil
	}
	if err := os.MkdirAll(filepath.Dir(c.staging(name)), 0o777); err != nil {
		return p, err
	}
	if err := os.Rename(out.Name(), c.staging(name)); err != nil {
		return p, err
	}
	return p, c.addStaged(ctx, f.Path, p)
}

// growing is file for one to which bytes are added, and in which none change: what was sent before stays.
func (c *copier) growing(ctx context.Context, file *File, f crawl.CrawlFile, before *File) (*File, error) {
	if file.Open = strings.HasSuffix(f.OnDisk, store.OpenSuffix); f.Grows && !file.Open {
		info, err := os.Stat(c.local(f.OnDisk))
		if err != nil {
			return nil, err
		}
		file.Open = info.Size() > f.Length // filled since the checkpoint: the copy has a part of it
	}
	if before != nil && before.Link == "" {
		before = nil
	}
	chain := store.NewChain()
	var at int64
	if before != nil {
		file.Parts = slices.Clone(before.Parts)
		for _, p := range file.Parts { // somebody has deleted it there
			if !c.at(f.Path, p) {
				again, err := c.cut(ctx, f, at, at+p.Length, nil)
				if err != nil {
					return nil, err
				}
				if again != p {
					return nil, c.damaged(f, "checksum "+again.Sum+" of a part", p.Sum)
				}
			}
			at += p.Length
		}
		if before.Length >= f.Length { // longer: of a checkpoint that was forgotten
			file.Length, file.Sum, file.Link = before.Length, before.Sum, before.Link
			return file, nil
		}
		var err error
		if chain, err = store.ResumeChain(store.Entry{Path: f.Path, Length: before.Length, Sum: before.Sum, Link: before.Link}); err != nil {
			return nil, err
		}
		if err := c.chained(ctx, f, chain, at, before.Sum); err != nil {
			return nil, err
		}
	}
	if f.Length == at {
		return file, nil
	}
	part, err := c.tail(ctx, f, at, chain)
	if err != nil {
		return nil, err
	}
	if sum := chain.Sum(); sum != f.Sum {
		return nil, c.damaged(f, fmt.Sprintf("checksum %s of the first %d bytes", sum, f.Length), f.Sum)
	}
	file.Parts = append(file.Parts, part)
	return file, nil
}

// chained reads what a chain lacks up to an offset, where its sum is known.
func (c *copier) chained(ctx context.Context, f crawl.CrawlFile, chain *store.Chain, to int64, sum string) error {
	in, err := c.open(f)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := io.Copy(chain, ctxReader{ctx, io.NewSectionReader(in, chain.Length(), to-chain.Length())}); err != nil {
		return err
	}
	if have := chain.Sum(); have != sum {
		return c.damaged(f, fmt.Sprintf("checksum %s of the first %d bytes", have, to), sum)
	}
	return nil
}

// tail stages what follows an offset. A file that grows no more is not copied if none of it was sent. One that the list has as growing may
// have been filled and have got its last name since: of it the bytes that count are copied.
func (c *copier) tail(ctx context.Context, f crawl.CrawlFile, from int64, chain io.Writer) (Part, error) {
	if from > 0 || f.Grows {
		return c.cut(ctx, f, from, f.Length, chain)
	}
	return c.whole(ctx, f, "", chain)
}

// open opens a file of the list, a growing one under either of its names: it may be sealed since the list was made.
func (c *copier) open(f crawl.CrawlFile) (in *os.File, err error) {
	for _, name := range []string{f.OnDisk, f.Path} {
		if in, err = os.Open(c.local(name)); !f.Grows || !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return in, err
}

// publish sends the list, and reads it back. A kill leaves the last one or this.
func (c *copier) publish(ctx context.Context, last, l *List) error {
	data, err := store.Seal(magic, l)
	if err != nil {
		return err
	}
	l.sum = store.Sum(data)
	if err := c.writeSent(last, l); err != nil {
		return err
	}
	if err := c.makeStage(); err != nil {
		return err
	}
	name := listName(l.Number)
	if err := os.WriteFile(c.staging(name), data, 0o666); err != nil {
		return err
	}
	if err := c.to.put(ctx, c.stage(), []string{name}); err != nil {
		return err
	}
	back, err := c.read(ctx, name)
	if err == nil {
		_, err = decode(c.name+"/"+name, back)
	}
	return err
}

// tidy deletes all files that the last snapshot, with the given number and files, does not need. It touches only names that a push gives.
func (c *copier) tidy(ctx context.Context, last *List, needed map[string]int64) error {
	var names []string
	for name := range c.have {
		if _, ok := needed[name]; !ok && ours().MatchString(name) && name != listName(last.Number) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for batch := range slices.Chunk(names, batchFiles) {
		if err := c.to.remove(ctx, batch); err != nil {
			return err
		}
		c.done.Removed += len(batch)
	}
	return nil
}

// check reads back what a snapshot needs, and forgets of the remote what is damaged there, so that it is sent again.
func (c *copier) check(ctx context.Context, last *List) error {
	if last == nil {
		return nil
	}
	want := last.objects()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(name string) bool { return c.have[name] != want[name] })
	return c.receive(ctx, names, want, func(name string, whole bool) error {
		if !whole {
			delete(c.have, name)
			c.done.Damaged++
		}
		return nil
	})
}

// receive gets files into the stage, some at a time, and calls f for each. whole reports whether the file is as its name says.
func (c *copier) receive(ctx context.Context, names []string, lengths map[string]int64, f func(name string, whole bool) error) error {
	for len(names) > 0 {
		n, bytes := 0, int64(0)
		for n < len(names) && n < batchFiles && (n == 0 || bytes+lengths[names[n]] <= batchBytes) {
			bytes += lengths[names[n]]
			n++
		}
		if err := os.RemoveAll(c.stage()); err != nil {
			return err
		}
		if err := c.makeStage(); err != nil {
			return err
		}
		if err := c.to.get(ctx, names[:n], c.stage()); err != nil {
			return err
		}
		for _, name := range names[:n] {
			sum, length, err := sumOf(ctx, c.staging(name))
			if err == nil {
				err = f(name, length == lengths[name] && strings.HasSuffix(name, "@"+sum))
			}
			if err != nil {
				return err
			}
		}
		if c.opt.Progress != nil {
			c.opt.Progress(bytes)
		}
		names = names[n:]
	}
	return os.RemoveAll(c.stage())
}

func sumOf(ctx context.Context, path string) (sum string, length int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	hash := xxh3.New()
	length, err = io.Copy(hash, ctxReader{ctx, f})
	return store.HexSum(hash), length, err
}
