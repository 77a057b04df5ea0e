package warc

import "io"

// pastMax is how far a Reader with a Tolerance can go back, less what it has read ahead.
const pastMax = 192 << 10

// rereadFree is how many bytes may be read again beyond as many as were read at all: looking for
// records costs no more than a multiple of the file, whatever is in it.
const rereadFree = 1 << 20

// counter counts what is read. With a Tolerance it can go back: in a file by seeking, in a pipe to the last bytes, which it copies.
type counter struct {
	r   io.Reader
	n   int64
	err error // error that ended r

	keeps  bool
	file   io.Seeker // r, if it is a file; else nil
	past   []byte    // of a pipe: byte n of r is at n % pastMax
	top    int64     // bytes of r that were read
	reread int64     // bytes that were, or are to be, read again
}

// open begins to read r.
func (c *counter) open(r io.Reader) {
	*c = counter{r: r, keeps: c.keeps, past: c.past}
	if file, ok := r.(io.Seeker); ok && c.keeps {
		if _, err := file.Seek(0, io.SeekCurrent); err == nil { // as it is not for a pipe
			c.file = file
		}
	}
}

func (c *counter) Read(p []byte) (int, error) {
	if c.n < c.top && c.file == nil {
		from := c.n % pastMax
		n := copy(p, c.past[from:min(pastMax, from+c.top-c.n)])
		c.n += int64(n)
		return n, nil
	}
	n, err := c.r.Read(p)
	if c.keeps && c.file == nil {
		c.keep(p[:n])
	}
	c.n += int64(n)
	c.top = max(c.top, c.n)
	if err != nil {
		c.err = err
	}
	return n, err
}

// keep copies what was read at n.
func (c *counter) keep(b []byte) {
	if c.past == nil {
		c.past = make([]byte, pastMax)
	}
	at := c.n
	if more := len(b) - pastMax; more > 0 {
		at, b = at+int64(more), b[more:]
	}
	copy(c.past, b[copy(c.past[at%pastMax:], b):])
}

// oldest is the first byte to which it can go back.
func (c *counter) oldest() int64 { return max(0, c.top-pastMax) }

// back goes to an earlier byte, as far as it can and that may be read again.
func (c *counter) back(to int64) bool {
	cost := c.n - to
	if !c.keeps || to < c.oldest() || cost < 0 || c.reread+cost > c.top+rereadFree {
		return false
	}
	if c.file != nil {
		if _, err := c.file.Seek(-cost, io.SeekCurrent); err != nil {
			return false
		}
	}
	c.reread += cost
	c.n, c.err = to, nil
	return true
}

// moveTo goes on at an offset of the file. Behind the place it goes as far back as it can: it may stay. Before the offset it never
// stops, so that who moves beyond a place does not meet that again.
func (r *Reader) moveTo(to int64) {
	at := max(to-r.opt.Offset, r.src.oldest())
	if at < r.offset()-r.opt.Offset && r.src.back(at) {
		r.in.Reset(&r.src)
	}
	if ahead := to - r.offset(); ahead > 0 {
		r.in.Discard(int(ahead)) // the end is met again
	}
}
