package fpset

// maxRuns is the k of the k-binomial rule: no set has more runs.
const maxRuns = 8

// keptRuns is the number of runs that the t-th batch (t = 1, 2, …) leaves
// alone; it and the runs after them become one.
//
// The rule is the k-binomial transform of Bentley and Saxe, as Mathieu, Staelin,
// Young and Yousefi use it for compaction ("Bigtable merge compaction", 2014).
// Each t has one representation t = C(m_k,k) + … + C(m_1,1) with
// m_k > … > m_1 ≥ 0; after t batches the runs hold these numbers of batches, zeros left
// out. From t to t+1 some leading runs stay, and all others merge with the new
// batch.
func keptRuns(t uint64) int { return len(binomialRuns(t)) - 1 }

// binomialRuns returns the number of batches in each run after t batches, oldest
// run first.
func binomialRuns(t uint64) []uint64 {
	var runs []uint64
	for i := uint64(maxRuns); i > 0 && t > 0; i-- {
		// The largest C(m,i) that fits, from C(i,i) = 1 upwards.
		c := uint64(1)
		for m := i + 1; ; m++ {
			next := c * m / (m - i) // C(m,i), exact; t < 2⁵³ keeps it in range
			if next > t {
				break
			}
			c = next
		}
		runs = append(runs, c)
		t -= c
	}
	return runs
}
