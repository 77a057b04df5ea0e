package warc

import (
	"bytes"
	"crypto/sha1"
	"hash"
	"io"

	"mercator/pkg/base/fault"
	"mercator/pkg/web/httpmsg"
)

// CheckPayload reads the current record's block and compares WARC-Payload-Digest.
// Of a resource the payload is the block; of a response it is the body without its
// transfer coding (ISO 28500 sections 5.9 and 6.3.2) or, as some writers have it,
// with. Records of other types, and those without a SHA-1 digest, pass; but with a Tolerance a reply needs an HTTP head
// that can be read.
func (r *Reader) CheckPayload() error {
	want, ok := parseSHA1(r.rec.Get(FieldPayloadDigest))
	if r.err != nil || !ok && (r.opt.Tolerance == nil || !r.rec.IsReply()) {
		return r.err
	}
	var got [][sha1.Size]byte
	switch r.rec.Type {
	case TypeResource:
		h := sha1.New()
		io.Copy(h, r.rec.Block) // errors are in r.err
		got = append(got, [sha1.Size]byte(h.Sum(nil)))
	case TypeResponse:
		raw := &bodyHash{h: sha1.New()}
		block := io.TeeReader(r.rec.Block, raw)
		m, err := httpmsg.OpenArchived(block)
		if err != nil {
			if err := r.Finish(); err != nil || !r.rec.IsReply() {
				return err
			}
			return r.Unreadable(err)
		}
		if !ok {
			return r.err
		}
		raw.beginBody(m.Head.Size)
		h := sha1.New()
		io.Copy(h, m.Payload) // chunks may be cut or wrong: what came before counts
		io.Copy(io.Discard, block)
		got = append(got, [sha1.Size]byte(h.Sum(nil)), [sha1.Size]byte(raw.h.Sum(nil)))
	}
	if r.err != nil {
		return r.err
	}
	for i, sum := range got {
		if sum == want {
			break
		}
		if i == len(got)-1 {
			err := r.fault(fault.Corrupt, "payload digest "+FormatSHA1(got[0]), FormatSHA1(want))
			if t := r.opt.Tolerance; t == nil || t.Strict && t.All {
				r.err = err
				break
			}
			r.wrongDigest(err)
		}
	}
	return r.err
}

// bodyHash hashes what is written to it from a place on; the place may be set later.
type bodyHash struct {
	h     hash.Hash
	first bytes.Buffer // until begin
	begun bool
}

func (b *bodyHash) Write(p []byte) (int, error) {
	if !b.begun {
		return b.first.Write(p)
	}
	return b.h.Write(p)
}

// beginBody says how many bytes stand before the body.
func (b *bodyHash) beginBody(at int) {
	b.begun = true
	b.h.Write(b.first.Bytes()[at:])
}
