package warc

import "io"

// pastMax is how far a Reader with a Tolerance can go back, less what it has read ahead.
const pastMax = 192 << 10

// rereadFree is how many bytes may be read again beyond as many as were read at all: looking for
// records costs no more than a multiple of the file, whatever is in it.
const rereadFree = 1 << 20

// counter counts what is read. With a Tolerance it keeps the last bytes, to go back to them.
type counter struct {
	r   io.Reader
	n   int64
	err error // what r ended with

	keeps  bool
	past   []byte // the last bytes of r, up to top
	top    int64  // bytes of r that were read
	reread int64  // bytes that were, or are to be, read again
}

func (c *counter) Read(p []byte) (int, error) {
	if c.n < c.top {
		n := copy(p, c.past[int64(len(c.past))-(c.top-c.n):])
		c.n += int64(n)
		return n, nil
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	if c.keeps {
		c.top = c.n
		if len(c.past)+n > 2*pastMax {
			c.past = c.past[:copy(c.past, c.past[max(0, len(c.past)-pastMax):])]
		}
		c.past = append(c.past, p[:n]...)
	}
	return n, err
}

// back goes to an earlier byte, as far as that is kept and may be read again.
func (c *counter) back(to int64) bool {
	cost := c.n - to
	if !c.keeps || to < c.top-int64(len(c.past)) || cost < 0 || c.reread+cost > c.top+rereadFree {
		return false
	}
	c.reread += cost
	c.n, c.err = to, nil
	return true
}

// rewind goes back to an offset of the file, or as far as it can: it may stay.
func (r *Reader) rewind(to int64) {
	at := to - r.opt.Offset
	if oldest := r.src.top - int64(len(r.src.past)); at < oldest {
		at = oldest
	}
	if at < r.offset()-r.opt.Offset && r.src.back(at) {
		r.in.Reset(&r.src)
	}
}
