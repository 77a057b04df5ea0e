// Package fpset is a set of 64-bit fingerprints that grows by batches, in a
// store: Mercator's document fingerprint set, and what package urlset stands on.
//
// A Set is an interface: CreateOptions.Impl chooses what is behind it. Unless told
// otherwise that is a few sorted runs, each a fingerprint file. A batch is
// sorted, and asked for in one sequential pass over all runs that skips the
// blocks it cannot hit; what is new becomes a run. This is the "DUE" of SRC-RR-173
// without its rewriting of the whole set for each batch. SPEC.md beside this file
// says what lies on disk, which runs are merged when, and what that costs.
//
// # Invariants
//
//   - Answers do not depend on batch size, memory, workers, the number of runs, or
//     filters; nor on the implementation, unless it calls itself lossy.
//   - Memory does not grow with the set: a reader for each of at most eight runs,
//     256 KiB of buffers each while a pass reads it.
//   - A set changes only by the store's transaction: a crash leaves the old set
//     or the new one.
//   - Fingerprints of one polynomial only; the store's parameters name it.
package fpset
