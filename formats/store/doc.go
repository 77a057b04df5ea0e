// Package store keeps state as folders of immutable files plus generation
// manifests, changes it by named transactions, and binds the stores of a crawl
// together by checkpoints. The layout is SPEC.md beside this file, version 1.
//
// # Invariants
//
//   - A generation is published by the link of its manifest: whole, once, and only
//     after every file that it names is on the disk. A late writer loses.
//   - Nothing is deleted before what replaces it is published.
//   - Numbers of generations and checkpoints, and names of files that a manifest
//     or a journal ever held, are not used again.
//   - In a crawl folder CURRENT alone decides which generations count: commit,
//     abandon and restore are one rename of it.
//   - One round is open at a time in a store; the names of closed ones stay known.
//
// # Locks
//
// A Tx holds the store's lock from Begin to Commit or Abort. Readers take none.
// After a crash at any moment the next Begin goes on from the old generation or
// the new one.
package store
