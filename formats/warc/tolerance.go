package warc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"mercator/pkg/base/fault"
)

// Tolerance makes Readers read what other programs wrote, as far as it can be read: ARC files, WARC of any version,
// and the forms that SPEC.md lists under "Archives of other programs". What is damaged is skipped, and reading goes on at the
// next member or record. One Tolerance serves the Readers of several files, one after the other.
type Tolerance struct {
	Strict bool              // the first damage is an error of Next
	All    bool              // each oddity is told, not only the first of its kind, and all damage
	Say    func(line string) // is told what is odd or damaged, with its place; may be nil

	Records uint64 // records read whole
	Odd     uint64 // oddities that were read all the same
	Digests uint64 // blocks and payloads that are not what their digests say, where these are checked
	Skipped uint64 // damaged places that were skipped

	told  map[string]bool
	file  string // in which damage was met last
	files int    // with damage
	lines int    // told of damage in file
	first *fault.Error
}

// damageMax is how many damaged places of a file are told.
const damageMax = 10

// Err is nil if nothing was skipped, and no digest was wrong; else it tells how much.
func (t *Tolerance) Err() error {
	switch {
	case t.Skipped > 0:
		e := &fault.Error{Class: t.first.Class, File: t.first.File, Found: places(t.Skipped, "damaged place") + " skipped", Want: "none"}
		if !t.All && t.first.Class != fault.WrongKind {
			e.Hint = "list all that is odd or damaged in it: " + fault.Quote("mcat", "--check", named(t.first.File))
		}
		if t.files > 1 {
			e.File, e.Found = "", fmt.Sprintf("%s of %d files skipped", places(t.Skipped, "damaged place"), t.files)
		}
		return e
	case t.Digests > 0 && t.All:
		return &fault.Error{Class: fault.Corrupt, File: t.file, Found: places(t.Digests, "wrong digest"), Want: "none"}
	}
	return nil
}

func places(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatUint(n, 10) + " " + what + "s"
}

// Nothing is Err of archives in which no record is whole: there is nothing to keep.
func (t *Tolerance) Nothing() error {
	if t == nil || t.Records > 0 {
		return nil
	}
	return t.Err()
}

func (t *Tolerance) say(line string) {
	if t.Say != nil {
		t.Say(line)
	}
}

// skip counts damage that is skipped.
func (t *Tolerance) skip(e *fault.Error) {
	if t.first == nil {
		t.first = e
	}
	if t.files == 0 || t.file != e.File {
		t.file, t.lines = e.File, 0
		t.files++
	}
	t.Skipped++
	if t.lines++; t.All || t.lines <= damageMax {
		t.say(e.Error() + "; skipped")
	} else if t.lines == damageMax+1 {
		t.say(e.File + ": further damage in this file is counted only")
	}
}

// Skip counts a file that cannot be read as an archive at all. It returns the error if that is to end reading.
func (t *Tolerance) Skip(err error) error {
	var e *fault.Error
	if t == nil || t.Strict || !errors.As(err, &e) || !isDamage(err) {
		return err
	}
	t.skip(e)
	return nil
}

// Unreadable tells of the current record, which was read whole, that its HTTP head cannot be read: its page and links are lost.
// With a Tolerance that is damage that is skipped, and an error if Strict. In a crawl's own archive it is not: a server may send what it likes.
func (r *Reader) Unreadable(err error) error {
	t := r.opt.Tolerance
	if t == nil || err == nil || r.rec.Length == 0 {
		return nil
	}
	e := &fault.Error{Class: fault.Corrupt, File: r.opt.Name, Place: r.place() + ": HTTP head", Found: err.Error()}
	var cause *fault.Error
	if errors.As(err, &cause) {
		e.Found, e.Want = cause.Found, cause.Want
	}
	if t.Strict {
		r.err = e
		return e
	}
	t.skip(e)
	return nil
}

// odd notes what is read although it is not as the standard has it.
func (r *Reader) odd(kind, found string) {
	t := r.opt.Tolerance
	t.Odd++
	if !t.All && t.told[kind] {
		return
	}
	if t.told == nil {
		t.told = map[string]bool{}
	}
	t.told[kind] = true
	line := r.opt.Name + ": " + r.place() + ": " + found
	if !t.All {
		line += "; read all the same, as others like it"
	}
	t.say(line)
}

// wrongDigest notes a digest that does not hold.
func (r *Reader) wrongDigest(err error) {
	t := r.opt.Tolerance
	t.Digests++
	if t.file = r.opt.Name; t.All {
		t.say(err.Error())
		return
	}
	if t.told == nil {
		t.told = map[string]bool{}
	}
	if !t.told["digest"] {
		t.told["digest"] = true
		t.say(err.Error() + "; read all the same, as others like it")
	}
}

// isDamage reports whether an error is of the file's content, and not of reading it.
func isDamage(err error) bool {
	switch fault.ClassOf(err) {
	case fault.Corrupt, fault.Truncated, fault.Version, fault.WrongKind:
		return true
	}
	return false
}

// Damaged reports whether err is damage that ends the current record, was counted, and is skipped by Next.
func (r *Reader) Damaged(err error) bool {
	return err != nil && r.damage != nil && errors.Is(err, r.damage)
}

// ended notes the error that ended the current record.
func (r *Reader) ended(err error) error {
	r.err = err
	t := r.opt.Tolerance
	if t == nil || t.Strict || !isDamage(err) || r.Damaged(err) {
		return err
	}
	var e *fault.Error
	errors.As(err, &e)
	r.damage = e
	if r.seen {
		t.skip(e)
	} else if r.held == nil {
		r.held = e // of what may be no archive at all
	}
	return err
}

// nextTolerant is Next with a Tolerance.
func (r *Reader) nextTolerant() (*Record, error) {
	for {
		if r.err == nil {
			rec, err := r.next()
			if err == nil {
				r.seen, r.last = true, r.codec
				if r.held != nil {
					r.opt.Tolerance.skip(r.held)
					r.held = nil
				}
				return rec, nil
			}
			r.ended(err)
		}
		if r.damage == nil {
			if r.err == io.EOF && r.held != nil { // not one record
				r.err = r.held
				if what := Describe(r.front); what != "" {
					r.err = &fault.Error{Class: fault.WrongKind, File: r.opt.Name, Found: what, Want: "WARC or ARC records", Hint: HintFor(r.front, r.opt.Name), Err: r.held}
				}
				r.held = nil
			}
			return nil, r.err
		}
		r.err, r.damage, r.open = nil, nil, false
		if err := r.resync(); err != nil && err != io.EOF { // after the end openMember tells
			r.err = r.fail(err)
			return nil, r.err
		}
	}
}

// resync goes to where the next record may begin.
func (r *Reader) resync() error {
	switch {
	case r.more:
		return nil
	case r.codec == None && r.last == None && r.seen:
		r.moveTo(r.start + 1)
		return r.seekRecord(r.in)
	case r.codec == None:
		r.member = r.start // where none begins
	case !r.broken: // the member is sound, what is in it is not
		switch err := r.seekRecord(r.inner); err {
		case nil:
			r.more = true
			return nil
		case io.EOF:
			return nil
		}
		if r.src.err != nil && r.src.err != io.EOF {
			return r.src.err
		}
	}
	r.moveTo(r.member + 1)
	bare := !r.seen && r.codec == None // a damaged member may have such bytes in it
	for {
		if err := r.seekMember(bare); err != nil {
			return err
		}
		at := r.offset()
		if b, _ := r.in.Peek(9); isWARC(b) {
			return nil
		}
		if r.openCodec() == nil && r.blank(r.inner, nil) == nil && r.starts(r.inner) {
			r.more, r.member, r.broken = true, at, false
			return nil
		}
		if r.src.err != nil && r.src.err != io.EOF {
			return r.src.err
		}
		r.moveTo(at + 1)
	}
}

// seekRecord reads to the next line with which a record begins.
func (r *Reader) seekRecord(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return err
		}
		if b, _ := in.Peek(9); isWARC(b) || r.arc && r.starts(in) {
			return nil
		}
	}
}

// seekMember reads to the next bytes with which a gzip member or a zstd frame begins, or, with bare, a record.
func (r *Reader) seekMember(bare bool) error {
	const most = 8 // bytes by which they are known
	for {
		b, err := r.in.Peek(r.in.Size())
		for i := range b {
			switch b[i] {
			case 0x1f, 0x28, 'W', 'w':
				if opensMember(b[i:]) || bare && isWARC(b[i:]) {
					r.in.Discard(i)
					return nil
				}
			}
			if err == nil && i > len(b)-most {
				break
			}
		}
		if err != nil {
			r.in.Discard(len(b))
			return err
		}
		r.in.Discard(len(b) - most + 1)
	}
}

func opensMember(b []byte) bool {
	return len(b) >= 4 && (b[0] == 0x1f && b[1] == 0x8b && b[2] == 8 && b[3]&0xe0 == 0 || binary.LittleEndian.Uint32(b) == frameMagic)
}

// starts reports whether a record begins at in.
func (r *Reader) starts(in *bufio.Reader) bool {
	if b, _ := in.Peek(9); isWARC(b) {
		return true
	}
	b, _ := in.Peek(min(in.Buffered(), arcLineMax))
	if bytes.IndexByte(b, '\n') < 0 {
		b, _ = in.Peek(arcLineMax)
	}
	line, _, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return false
	}
	_, ok = parseARC(string(line))
	return ok
}

// startsBeyond reports whether the member ends inside a version line, which the next one may carry on.
func (r *Reader) startsBeyond() bool {
	b, err := r.inner.Peek(8)
	return err == io.EOF && len(b) > 0 && isWARC([]byte(string(b)+"WARC/0.0"[len(b):]))
}

// isWARC reports whether b begins as a version line does.
func isWARC(b []byte) bool {
	return len(b) >= 8 && strings.EqualFold(string(b[:5]), "WARC/") && '0' <= b[5] && b[5] <= '9' && b[6] == '.' && '0' <= b[7] && b[7] <= '9'
}

// endsHere reports whether a record can end where the block has been read to.
func (r *Reader) endsHere() bool {
	b, err := r.plain.Peek(8 + 9)
	rest := bytes.TrimLeft(b, "\r\n")
	return len(rest) == 0 && err == io.EOF || isWARC(rest) || r.codec == None && len(rest) > 0 && (rest[0] == 0 || opensMember(rest) || isSkippable(rest))
}

// blank reads line ends; io.EOF if nothing follows. They are appended to keep, the first few.
func (r *Reader) blank(in *bufio.Reader, keep *[]byte) error {
	for {
		c, err := in.ReadByte()
		if err != nil {
			return err
		}
		if c != '\r' && c != '\n' {
			return in.UnreadByte()
		}
		if keep != nil && len(*keep) < 8 {
			*keep = append(*keep, c)
		}
	}
}

// openTolerant is openMember with a Tolerance.
func (r *Reader) openTolerant() error {
	if r.front == nil {
		r.in.Peek(1)
		b, _ := r.in.Peek(min(r.in.Buffered(), frontMax)) // what came first
		r.front = append(make([]byte, 0, frontMax), b...)
	}
	r.inside = r.more
	if r.more {
		r.more = false
		r.start = r.member
		r.number++
		return nil
	}
	for {
		r.start, r.codec, r.plain = r.offset(), None, r.in
		magic, err := r.in.Peek(9)
		if len(magic) == 0 {
			if err == io.EOF {
				return io.EOF
			}
			return r.fail(err)
		}
		switch {
		case magic[0] == '\r', magic[0] == '\n':
			if err := r.blank(r.in, nil); err != nil && err != io.EOF {
				return r.fail(err)
			}
			if r.seen && !r.arc {
				r.odd("between", "line ends between records")
			}
			continue
		case magic[0] == 0:
			r.odd("padding", "zero bytes between records")
			for {
				b, err := r.in.Peek(r.in.Size())
				n := len(b) - len(bytes.TrimLeft(b, "\x00"))
				if r.in.Discard(n); n < len(b) || err != nil {
					break
				}
			}
			continue
		case isSkippable(magic):
			if err := r.skippable(); err != nil {
				r.number++
				r.codec, r.member, r.broken = Zstd, r.start, true
				return err
			}
			continue
		case opensMember(magic):
			r.number++
			r.member, r.broken = r.start, false
			if err := r.openCodec(); err != nil {
				return r.failHead(err)
			}
			if err := r.blank(r.inner, nil); err == io.EOF && (r.codec == Gzip || r.frame.complete()) {
				r.number--
				r.odd("empty", "an empty "+string(r.codec)+" member")
				continue
			} else if err != nil {
				return r.fail(err)
			}
			return nil
		}
		r.number++
		if isPrefixOfMagic(magic) && len(magic) < 4 {
			return r.fault(fault.Truncated, "file ends inside the record", "")
		}
		if !r.starts(r.in) && !strings.HasPrefix("WARC/1.0\r", string(magic)) {
			return r.fault(fault.Corrupt, fmt.Sprintf("%q", magic), `"WARC/", an ARC record, a gzip member or a zstd frame`)
		}
		return nil
	}
}

// carriesOn reports whether the member that ended inside the record is followed by one which carries that on.
func (r *Reader) carriesOn() bool {
	magic, _ := r.in.Peek(4)
	if r.opt.Tolerance == nil || !opensMember(magic) {
		return false
	}
	at := r.offset()
	r.member, r.broken = at, false
	if r.openCodec() != nil {
		r.broken = true
		return false
	}
	if r.starts(r.inner) {
		r.more = true
		return false
	}
	r.odd("split", "a record in several "+string(r.codec)+" members")
	return true
}

// finishTolerant reads what is left of the record, and the line ends after it.
func (r *Reader) finishTolerant() error {
	if _, err := io.Copy(io.Discard, &r.block); err != nil {
		return err
	}
	var few [8]byte
	end := few[:0]
	want := recordEnd
	if r.isARC {
		want = "\n"
	}
	err := r.asWanted(want, &end)
	if err == nil && string(end) == want && r.codec == None { // nobody waits for the next record
		r.open = false
		r.good = r.offset()
		r.opt.Tolerance.Records++
		return nil
	}
	if err == nil {
		err = r.blank(r.plain, &end)
	}
	if err != nil && err != io.EOF {
		return r.fail(err)
	}
	odd := string(end) != want && !(r.isARC && len(end) < 3)
	if err == nil {
		switch {
		case r.starts(r.plain), r.codec != None && r.startsBeyond():
			if r.codec != None {
				r.odd("several", string(r.codec)+" member with several records: an offset leads to the first; decompressed, each has its own")
				r.more = true
			}
		case r.codec == None && !odd && len(end) > 0: // the next record is damaged, not this one
		case r.codec == None:
			if b, _ := r.in.Peek(4); !opensMember(b) && !isSkippable(b) && b[0] != 0 {
				return r.fault(fault.Corrupt, fmt.Sprintf("%q after the block", b), "line ends and a record")
			}
		default: // the record is whole; what follows in its member is not
			b, _ := r.plain.Peek(4)
			r.odd("after", fmt.Sprintf("%q after the block", b))
			switch err := r.seekRecord(r.plain); {
			case err == nil:
				r.more = true
			case err != io.EOF:
				return r.fail(err)
			}
			odd = false
		}
	}
	if odd {
		r.odd("end", fmt.Sprintf("%q after the block, want %q", end, want))
	}
	r.open = false
	r.good = r.offset()
	r.opt.Tolerance.Records++
	return nil
}

// asWanted reads as much of want as is there.
func (r *Reader) asWanted(want string, end *[]byte) error {
	for i := range len(want) {
		c, err := r.plain.ReadByte()
		if err != nil {
			return err
		}
		if c != want[i] {
			return r.plain.UnreadByte()
		}
		*end = append(*end, c)
	}
	return nil
}

// looseDate reads the forms of dates that archives have and the standard has not: 14 digits, no zone, other zones, the
// day of the year in place of the day of the month (ClueWeb09), a leap second.
func looseDate(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if t, err := time.Parse(time.RFC1123, s); err == nil {
		return t.UTC(), true
	}
	rest := s
	number := func(min, max int) (n int, ok bool) {
		i := 0
		for i < len(rest) && i < max && '0' <= rest[i] && rest[i] <= '9' {
			n = n*10 + int(rest[i]-'0')
			i++
		}
		rest = rest[i:]
		return n, i >= min
	}
	skip := func(set string) {
		if rest != "" && strings.IndexByte(set, rest[0]) >= 0 {
			rest = rest[1:]
		}
	}
	year, ok := number(4, 4)
	if !ok || year == 0 {
		return time.Time{}, false
	}
	days := 2
	month, day, hour, min, sec, nano := 1, 1, 0, 0, 0, 0
	if skip("-/"); rest != "" && s[4] >= '0' && s[4] <= '9' {
		if len(s) > 14 && strings.Trim(s, "0123456789") == "" {
			rest = s[4:14] // fractions of a second, or zeros
		}
	} else {
		days = 3
	}
	for _, f := range []struct {
		to    *int
		width int
		after string
	}{{&month, 2, "-/"}, {&day, days, "Tt "}, {&hour, 2, ":"}, {&min, 2, ":"}, {&sec, 2, "."}} {
		if rest == "" || strings.IndexByte("Zz+-", rest[0]) >= 0 && f.to != &day {
			break
		}
		if *f.to, ok = number(1, f.width); !ok {
			return time.Time{}, false
		}
		skip(f.after)
	}
	if fraction := len(rest) - len(strings.TrimLeft(rest, "0123456789")); fraction > 0 {
		digits := (rest[:fraction] + "000000000")[:9]
		nano, _ = strconv.Atoi(digits)
		rest = rest[fraction:]
	}
	offset := 0
	switch rest = strings.TrimSpace(rest); {
	case rest == "", strings.EqualFold(rest, "Z"), strings.EqualFold(rest, "UTC"), strings.EqualFold(rest, "GMT"):
	case rest[0] == '+', rest[0] == '-':
		sign := 1
		if rest[0] == '-' {
			sign = -1
		}
		rest = strings.ReplaceAll(rest[1:], ":", "")
		n, ok := number(4, 4)
		if !ok || rest != "" {
			return time.Time{}, false
		}
		offset = sign * (n/100*3600 + n%100*60)
	default:
		return time.Time{}, false
	}
	if month < 1 || month > 12 || day < 1 || day > 366 || hour > 24 || min > 59 || sec > 60 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, min, sec, nano, time.UTC)
	if t.Month() != time.Month(month) && hour < 24 && sec < 60 { // no day of this month, but perhaps of the year
		t = time.Date(year, 1, day, hour, min, sec, nano, time.UTC)
		if day <= 31 || t.Month() != time.Month(month) {
			return time.Time{}, false
		}
	}
	return t.Add(-time.Duration(offset) * time.Second), true
}

// named is the file in a command.
func named(file string) string {
	if file == "standard input" {
		return "FILE"
	}
	return file
}
