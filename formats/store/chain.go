package store

import (
	"encoding/hex"

	"github.com/zeebo/xxh3"

	"mercator/pkg/base/fault"
)

// chainBlock is how many bytes a link of a Chain covers.
const chainBlock = 1 << 20

// Chain is the checksum of a file that grows, which a later generation takes up
// where an earlier one left it, at a cost of what was added and not of the whole.
//
// The file is cut into blocks of 1 MiB. Link 0 is 16 zero bytes; link i+1 is the
// xxh3-128 of link i and block i; the sum is the xxh3-128 of the last link and
// the bytes after its block, fewer than 1 MiB.
type Chain struct {
	hash   *xxh3.Hasher // of the link and what came after it
	link   [16]byte
	length int64
}

// NewChain starts the checksum of a file without committed bytes.
func NewChain() *Chain {
	c := &Chain{hash: xxh3.New()}
	c.beginLink()
	return c
}

// ResumeChain goes on from an entry that has a link. The bytes from c.Length()
// are to be written; once those up to e.Length have been, Sum is e.Sum.
func ResumeChain(e Entry) (*Chain, error) {
	c := &Chain{hash: xxh3.New(), length: e.Length - e.Length%chainBlock}
	if n, err := hex.Decode(c.link[:], []byte(e.Link)); err != nil || n != len(c.link) || !IsSum(e.Link) {
		return nil, &fault.Error{Class: fault.Corrupt, File: e.Path, Place: "link", Found: clip(e.Link), Want: "32 hex digits"}
	}
	c.beginLink()
	return c, nil
}

func (c *Chain) beginLink() {
	c.hash.Reset()
	_, _ = c.hash.Write(c.link[:])
}

// Write adds p, which follows what was written. It never fails.
func (c *Chain) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part := rest[:min(int64(len(rest)), chainBlock-c.length%chainBlock)]
		_, _ = c.hash.Write(part)
		c.length += int64(len(part))
		rest = rest[len(part):]
		if c.length%chainBlock == 0 {
			c.link = c.hash.Sum128().Bytes()
			c.beginLink()
		}
	}
	return len(p), nil
}

// Length is the length of the file so far.
func (c *Chain) Length() int64 { return c.length }

// Sum is Entry.Sum of the file so far.
func (c *Chain) Sum() string { return HexSum(c.hash) }

// Link is Entry.Link of the file so far.
func (c *Chain) Link() string { return hex.EncodeToString(c.link[:]) }
