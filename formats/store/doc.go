// Package store keeps state as a folder of immutable files plus generation manifests, and
// changes it by named transactions. The layout is SPEC.md beside this file, version 1. It knows
// nothing of what the files hold, and of a crawl only CURRENT, which says what generation of the
// store counts; package crawl writes that.
//
// # A transaction on disk
//
// "murlset new crawl/urls --txn r12" finds generation 25 and leaves 26:
//
//	urls/
//	  HEAD                               {"generation":25}, then 26
//	  LOCK                               held from Begin to Commit or Abort
//	  MANIFEST-000025                    files, small values, names of the transactions
//	  MANIFEST-000026                    made by this one
//	  runs/000019-0.fps                  a file of both
//	  runs/000026-0.fps                  new
//	  outputs/new-000026-1.arrows.zst    the kept output: what a repetition emits
//	  names/000026-2.names               names of transactions of closed rounds
//
// In order:
//
//  1. Begin locks LOCK and looks at CURRENT. If the crawl went back meanwhile (the store is of an older
//     epoch), it publishes what counts as the next generation, in the new epoch.
//  2. It refuses, unless the name is new and no round is open, or the name is the open round's. If the transaction has
//     committed, there is nothing to do but to repeat its output.
//  3. It deletes unpublished files, and those named after generation 26: a change that died left them.
//  4. Each new file is written under a temporary name, and renamed by Commit. No manifest names it yet: 3 deletes it if the change dies.
//     A growing file (a WARC file) gets its name in JOURNAL-000026 before it is made, so that
//     the same transaction, run again after a kill, goes on with it.
//  5. Commit looks at CURRENT again: a crawl that went back meanwhile refuses the change.
//  6. MANIFEST-000026 is written under a temporary name. It, the files of 4, their folders and the next HEAD are synced at the same
//     time. Then it is linked to its name, and the folder is synced. The link is the commit. A late writer of the same generation gets
//     EEXIST and loses.
//  7. HEAD is replaced. If that comes late or never, readers find 26 behind 25 all the same. So the folder is not synced
//     once more: the next change does that.
//  8. What is of no use any more is deleted: generations between the last checkpoint and the two newest,
//     files that they alone held, kept outputs of closed rounds.
//
// # On several machines
//
// The stores of a crawl without shards are changed from one machine: LOCK keeps changes apart, as above. A shard may be
// changed from another machine each time, and when the first is given up for lost, it may live on. So there a
// change claims ATTEMPT-000026.K, writes under names of its own, and waits with step 3 until it has
// published: attempts.go.
//
// # Invariants
//
//   - A generation is published by the link of its manifest: whole, once, and only
//     after every file that it names is on the disk.
//   - Nothing is deleted before what replaces it is published.
//   - Numbers of generations, and names of files that a manifest or a journal ever held, are
//     not used again: a record somewhere may name a WARC file, and must never point into another's bytes.
//   - One round is open at a time in a store; the names of closed ones stay known, in files that double
//     in size, so that a manifest does not grow with the rounds.
//   - Readers take no lock. Those that have a generation open keep its files while it is one of the two newest.
//
// # Why
//
// The small files are text because they are read when something has gone wrong: tail -n +2
// MANIFEST-000017 | jq .files works. A link publishes, not a pointer, because rename replaces in
// silence what another process has just published; so a process that lost its lock, as may happen
// on network file systems, cannot undo another's work.
package store
