package fetch

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/merge"
)

// KindPayloads is the role, and the kind of run, of the files that know payloads: one a run, see levels.
const KindPayloads = "payloads"

// payloadsMax is how many payloads of a round are held in memory before they
// become a run.
const payloadsMax = 1 << 15

// payload is where a payload was archived first.
type payload struct {
	digest [16]byte // 128 bits of the payload's SHA-1
	url    string
	date   record.Time
	file   string // WARC file, relative to the store
	offset int64  // of the response in it
}

// payloadDigest is the part of a row's digest that payloads are known by.
func payloadDigest(row *record.Fetch) (d [16]byte, ok bool) {
	var sum [sha1.Size]byte
	n, err := base32.StdEncoding.Decode(sum[:], []byte(row.PayloadSHA1))
	return [16]byte(sum[:16]), err == nil && n == len(sum)
}

// identifiable reports whether a row's payload is one that others may refer to: a
// whole one, of some bytes, of HTTP.
func identifiable(row *record.Fetch) bool {
	return row.OfPage() && row.Outcome == record.OutcomeFetched && row.Status != 0 && row.Truncated == "" && row.BodyLength > 0
}

// append appends all but the digest: date, offset and length of the file's name as varints,
// that name, the URL.
func (p *payload) append(b []byte) []byte {
	for _, n := range [...]int64{int64(p.date), p.offset, int64(len(p.file))} {
		b = binary.AppendVarint(b, n)
	}
	return append(append(b, p.file...), p.url...)
}

func parsePayload(digest [16]byte, value []byte, name string) (p payload, err error) {
	p.digest = digest
	rest, length, ok := value, int64(0), true
	for _, at := range [...]*int64{(*int64)(&p.date), &p.offset, &length} {
		n, size := binary.Varint(rest)
		*at, rest, ok = n, rest[max(size, 0):], ok && size > 0
	}
	if !ok || p.offset < 0 || length < 1 || length > int64(len(rest)) || rest[0] == '/' {
		return p, &fault.Error{Class: fault.Corrupt, File: name, Place: fmt.Sprintf("payload %x", digest), Found: strconv.Quote(clean(string(value))), Want: "a date, an offset and a WARC file"}
	}
	p.file, p.url = string(rest[:length]), string(rest[length:])
	return p, nil
}

// Payload is a row of a file of payloads, for people to read.
type Payload struct {
	Digest string `json:"digest"` // 128 bits of the payload's SHA-1
	URL    string `json:"url"`
	Date   int64  `json:"date"` // microseconds since 1970
	File   string `json:"warc_filename"`
	Offset int64  `json:"warc_offset"`
}

// Parse reads a row.
func (p *Payload) Parse(key uint64, value []byte) error {
	var digest [16]byte
	binary.BigEndian.PutUint64(digest[:], key)
	row, err := parsePayload(digest, value[copy(digest[8:], value):], "")
	*p = Payload{fmt.Sprintf("%x", digest), row.url, int64(row.date), row.file, row.offset}
	return err
}

// payloads is the store of payload digests: where each payload was archived first.
// Memory is a round's newest payloads, at most max, and a few blocks a run.
type payloads struct {
	tx *store.Tx

	mu    sync.Mutex // guards all below
	fresh map[[16]byte]payload
	known levels
	max   int
}

// statePayloads lists the runs, oldest first, separated by commas.
const statePayloads = "payloads"

// openPayloads opens what earlier rounds knew.
func openPayloads(st *store.Store, tx *store.Tx) (*payloads, error) {
	p := &payloads{tx: tx, fresh: map[[16]byte]payload{}, max: payloadsMax, known: levels{dir: st.Dir(), kind: KindPayloads}}
	for _, path := range strings.FieldsFunc(tx.Base().State[statePayloads], func(r rune) bool { return r == ',' }) {
		f, err := st.OpenFile(path)
		if err == nil {
			var fi os.FileInfo
			if fi, err = f.Stat(); err == nil {
				err = p.known.open(f, fi.Size(), f, st.Path(path), path)
			}
			if err != nil {
				f.Close()
			}
		}
		if err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *payloads) close() { p.known.close() }

// find returns the first payload with a digest.
func (p *payloads) find(digest [16]byte) (found payload, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.findHeld(digest)
}

// findHeld is find. p.mu is held.
func (p *payloads) findHeld(digest [16]byte) (found payload, ok bool, err error) {
	if found, ok = p.fresh[digest]; ok {
		return found, true, nil
	}
	var bad error
	err = p.known.find(digest, func(value []byte) bool {
		found, bad = parsePayload(digest, value, "payloads")
		ok = bad == nil
		return true
	})
	return found, ok, cmp.Or(err, bad)
}

// addPayload notes where the payload of a row was archived. If two workers archived it at one time, the first counts.
func (p *payloads) addPayload(row *record.Fetch) error {
	fresh := payload{url: row.URL, date: row.FetchTime, file: row.WARCFilename, offset: row.WARCOffset}
	var ok bool
	if fresh.digest, ok = payloadDigest(row); !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known, err := p.findHeld(fresh.digest); known || err != nil {
		return err
	}
	p.fresh[fresh.digest] = fresh
	if len(p.fresh) < p.max {
		return nil
	}
	return p.spill()
}

// spill moves what is in memory to a run that lasts as long as the process.
func (p *payloads) spill() error {
	rows := &unsorted{Sorter: merge.NewSorter(sortMemory, p.known.dir)}
	defer rows.Close()
	for digest, known := range p.fresh {
		if err := rows.addRow(digest, known.append); err != nil {
			return err
		}
	}
	clear(p.fresh)
	return rows.addRunTo(&p.known)
}

// commit makes the round's payloads a part of the next generation.
func (p *payloads) commit(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fresh) > 0 {
		if err := p.spill(); err != nil {
			return err
		}
	}
	all := p.known.runs
	n := len(all)
	for n > 0 && all[n-1].path == "" {
		n--
	}
	if n == len(all) {
		return nil // nothing is new
	}
	n = p.known.small(n, true)
	made, err := p.merge(ctx, n)
	if err != nil {
		return err
	}
	var paths []string
	for i, r := range all {
		if i < n {
			paths = append(paths, r.path)
		} else if r.path != "" {
			p.tx.Drop(r.path)
		}
	}
	p.tx.SetState(statePayloads, strings.Join(append(paths, made), ","))
	return nil
}

// merge writes the runs from n on as one of the next generation.
func (p *payloads) merge(ctx context.Context, n int) (path string, err error) {
	f, err := p.tx.Create("payloads/", ".run", KindPayloads)
	if err != nil {
		return "", err
	}
	rows, err := p.known.merged(n)
	if err == nil {
		_, err = p.known.write(ctx, f, rows, false)
	}
	if err != nil {
		return "", err
	}
	return f.Path(), f.Close()
}
