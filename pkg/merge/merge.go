// Package merge sorts more than fits in memory, and merges what is sorted.
//
// UnionKeys, IntersectKeys, DiffKeys and RadixSort work on keys in memory. Sorter is
// the external sort that the sets and the frontier stand on. Files merges
// fingerprint files on all processors, Union streams of keys on one; Records, Join
// and Split work on record streams; all in one sequential pass.
//
// # Invariants
//
//   - Memory is bounded by what the caller grants, whatever the input's size.
//   - Equal keys keep their order of arrival, then the order of their inputs.
//   - The result is the same for any number of threads.
//   - Temporary files have no name; nothing is left behind.
package merge
