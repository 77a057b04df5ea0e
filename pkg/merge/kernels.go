package merge

import "slices"

// The kernels below merge sets in memory: slices of strictly ascending keys.
//
// Which of two keys is the smaller is a coin toss, so a loop that branches on it
// spends most of its time on mispredicted branches. These loops have no such
// branch: the compiler turns min into a conditional move, and an addition of 0 or
// 1 into a flag that is added (SETcc). What remains is the wait of each step for
// the loads that the step before it decided on; so four key ranges are merged at
// a time, and their steps do not wait for each other. Intersection in Go has more
// pointers than registers, so amd64 has both in assembly.
const (
	lanes = 4
	// chunkKeys is the number of keys of each side that are cut into lanes at a
	// time. With fewer, lanes end at different times; with more, they do not fit the cache.
	chunkKeys = 16384
	// laneMin is the number of steps below which lanes are ended one by one.
	laneMin = 8
	// gallopRatio is the ratio of sizes from which on the keys of the smaller side
	// are searched in the larger.
	gallopRatio = 30
)

// lane is a key range of both sides, and room for its result.
type lane struct{ a, b, dst []uint64 }

// used are the numbers of keys of a lane that were read and written.
type used struct{ a, b, dst int }

// kernel is one of the operations.
type kernel struct {
	// room is the largest number of keys that a result can have.
	room func(a, b int) int
	// rest does all of a lane, and returns the number of keys written.
	rest func(l lane) int
	// search is rest for sides of very different size.
	search func(l lane) int
	// steps makes n steps in each lane; each uses up a key or two. No lane
	// has fewer keys on a side. It is nil where rest is the fastest there is.
	steps func(l *[lanes]lane, n int, u *[lanes]used)
}

var (
	unionKernel     = kernel{room: func(a, b int) int { return a + b }, rest: unionRest, search: unionSearch}
	intersectKernel = kernel{room: func(a, b int) int { return min(a, b) }, rest: intersectRest, search: intersectSearch}
	diffKernel      = kernel{room: func(a, b int) int { return a }, rest: diffRest, search: diffSearch}
)

// UnionKeys appends to dst the keys that are in a or in b. Both ascend strictly,
// as the result does; dst must not overlap them, beyond its length either.
func UnionKeys(dst, a, b []uint64) []uint64 { return unionKernel.run(dst, a, b) }

// IntersectKeys appends to dst the keys that are in a and in b, on the conditions
// of UnionKeys.
func IntersectKeys(dst, a, b []uint64) []uint64 { return intersectKernel.run(dst, a, b) }

// DiffKeys appends to dst the keys that are in a and not in b, on the conditions
// of UnionKeys.
func DiffKeys(dst, a, b []uint64) []uint64 { return diffKernel.run(dst, a, b) }

func (k *kernel) run(dst, a, b []uint64) []uint64 {
	dst = slices.Grow(dst, k.room(len(a), len(b)))
	out := dst[len(dst):cap(dst)]
	n := 0
	for len(a) > 0 && len(b) > 0 {
		// Cut a chunk off both sides at the same key.
		ca, cb := a[:min(chunkKeys, len(a))], b[:min(chunkKeys, len(b))]
		if x, y := ca[len(ca)-1], cb[len(cb)-1]; x < y {
			cb = cb[:notAbove(cb, x)]
		} else {
			ca = ca[:notAbove(ca, y)]
		}
		a, b = a[len(ca):], b[len(cb):]
		n += k.chunk(lane{ca, cb, out[n:]})
	}
	n += k.rest(lane{a, b, out[n:]})
	return dst[:len(dst)+n]
}

// chunk does all of c, and returns the number of keys written.
func (k *kernel) chunk(c lane) int {
	if small, large := min(len(c.a), len(c.b)), max(len(c.a), len(c.b)); small < large/gallopRatio {
		return k.search(c)
	} else if k.steps == nil || small < 2*lanes*laneMin {
		return k.rest(c)
	}
	var all [lanes]lane
	a, b, dst := c.a, c.b, c.dst
	for i := range all {
		na, nb := len(a), len(b)
		if i < lanes-1 {
			na = len(c.a) / lanes
			nb = notAbove(b, a[na-1])
		}
		all[i] = lane{a[:na], b[:nb], dst}
		a, b, dst = a[na:], b[nb:], dst[k.room(na, nb):]
	}
	begun := all
	for {
		n := len(all[0].a)
		for i := range all {
			n = min(n, len(all[i].a), len(all[i].b))
		}
		if n < laneMin {
			break
		}
		var u [lanes]used
		k.steps(&all, n, &u)
		for i, l := range all {
			all[i] = lane{l.a[u[i].a:], l.b[u[i].b:], l.dst[u[i].dst:]}
		}
	}
	// Close the gaps between what the lanes have written.
	end := 0
	for i := range all {
		n := len(begun[i].dst) - len(all[i].dst) + k.rest(all[i])
		if i > 0 {
			copy(c.dst[end:], begun[i].dst[:n])
		}
		end += n
	}
	return end
}

// one is 1 if ok, without a branch.
func one(ok bool) int {
	var n int
	if ok {
		n = 1
	}
	return n
}

func unionRest(l lane) int {
	i, j, n := 0, 0, 0
	for i < len(l.a) && j < len(l.b) {
		x, y := l.a[i], l.b[j]
		l.dst[n] = min(x, y)
		n++
		i += one(x <= y)
		j += one(y <= x)
	}
	n += copy(l.dst[n:], l.a[i:])
	return n + copy(l.dst[n:], l.b[j:])
}

func unionSearch(l lane) int {
	small, large := l.a, l.b
	if len(small) > len(large) {
		small, large = large, small
	}
	n := 0
	for _, x := range small {
		i := below(large, x)
		n += copy(l.dst[n:], large[:i])
		l.dst[n] = x
		n++
		if large = large[i:]; len(large) > 0 && large[0] == x {
			large = large[1:]
		}
	}
	return n + copy(l.dst[n:], large)
}

func intersectRest(l lane) int {
	i, j, n := 0, 0, 0
	for i < len(l.a) && j < len(l.b) {
		x, y := l.a[i], l.b[j]
		l.dst[n] = x
		n += one(x == y)
		i += one(x <= y)
		j += one(y <= x)
	}
	return n
}

func intersectSearch(l lane) int {
	small, large := l.a, l.b
	if len(small) > len(large) {
		small, large = large, small
	}
	n := 0
	for _, x := range small {
		large = large[below(large, x):]
		if len(large) == 0 {
			break
		}
		if large[0] == x {
			l.dst[n] = x
			n++
		}
	}
	return n
}

func diffRest(l lane) int {
	i, j, n := 0, 0, 0
	for i < len(l.a) && j < len(l.b) {
		x, y := l.a[i], l.b[j]
		l.dst[n] = x
		n += one(x < y)
		i += one(x <= y)
		j += one(y <= x)
	}
	return n + copy(l.dst[n:], l.a[i:])
}

func diffSearch(l lane) int {
	a, b := l.a, l.b
	n := 0
	if len(a) < len(b) {
		for _, x := range a {
			if b = b[below(b, x):]; len(b) == 0 || b[0] != x {
				l.dst[n] = x
				n++
			}
		}
		return n
	}
	for _, y := range b {
		i := below(a, y)
		n += copy(l.dst[n:], a[:i])
		if a = a[i:]; len(a) > 0 && a[0] == y {
			a = a[1:]
		}
	}
	return n + copy(l.dst[n:], a)
}

// notAbove is the number of keys that are not above key.
func notAbove(keys []uint64, key uint64) int {
	n, found := slices.BinarySearch(keys, key)
	return n + one(found)
}

// below is the number of keys below key. It gallops from the start, because sets
// that are merged are walked in small steps.
func below(keys []uint64, key uint64) int {
	step := 1
	for step < len(keys) && keys[step-1] < key {
		step *= 2
	}
	lo := step / 2
	n, _ := slices.BinarySearch(keys[lo:min(step, len(keys))], key)
	return lo + n
}
