// Package fpset is a set of 64-bit fingerprints that grows by batches, in a
// store: Mercator's document fingerprint set, and what package urlset stands on.
//
// # The set on disk
//
// A set is at most eight sorted runs, each a fingerprint file (formats/fpfile)
// of role "run" in the store. No fingerprint is in two runs. A batch is sorted, and
// merged against all runs in one sequential pass that skips the blocks it
// cannot hit; what is new becomes a run. This is the "DUE" of SRC-RR-173 without
// its rewriting of the whole set for each batch. The store's state says how many
// batches there were ("batches"), and by that number the newest runs are merged
// (keptRuns). Measured, for batches of one size:
//
//	batches   written per fingerprint   runs, on average
//	  10³              4.4                    6.5
//	  10⁴              7.1                    7.0
//	  10⁵             10.4                    7.3
//
// # Invariants
//
//   - Answers do not depend on batch size, memory, or the number of runs.
//   - Memory does not grow with the set: a reader per run, 256 KiB of buffers
//     each at most while a pass reads it.
//   - A set changes only by the store's transaction: a crash leaves the old set
//     or the new one.
//   - Fingerprints of one polynomial only; the store's parameters name it.
package fpset
