// Package crawl is a crawl folder: it makes one, closes rounds by checkpoints, goes back to
// them, and verifies all that is on the disk. A round is all transactions of one name in the
// stores of the folder. The layout is SPEC.md beside this file, version 1; what a store does
// by itself is package store.
//
// # What happens on disk when a round commits
//
// The round r12 is over: each command has committed its transaction of that name to its store
// (package store tells how), and the crawl folder is this:
//
//	crawl/
//	  CURRENT                      {"epoch":0,"checkpoint":12,"txn":"r11","stores":{"frontier":40,"urls":25,…},"last":12}
//	  checkpoints/000012           of round r11
//	  frontier/HEAD                {"generation":42}
//	  frontier/MANIFEST-000040     bound by checkpoint 12: the base
//	  frontier/MANIFEST-000041     "next r12"
//	  frontier/MANIFEST-000042     "update r12": its ledger is the round's
//	  urls/HEAD                    {"generation":26}
//	  urls/MANIFEST-000025         the base
//	  urls/MANIFEST-000026         "new r12"
//	  rounds/r12/*.arrows.zst      what the pipeline keeps of the round
//
// A kill up to here costs what was in flight: run again, each command finds its transaction
// committed and repeats its output. "mckpt commit crawl --txn r12" (Crawl.Commit, in commit.go) then does, in order:
//
//  1. lock crawl/LOCK, then the LOCK of each store, so that nothing changes meanwhile;
//  2. settle each store (Settle: its HEAD lags, or its epoch is older), and check whether the round is whole: the frontier has "update r12" (or "add", "raise" or "release", and no "next"),
//     each store that this one's ledger names has a transaction r12, and no store has another round open;
//  3. read rounds/r12 for lengths and checksums;
//  4. write checkpoints/000013: for each store its newest generation and its manifest's checksum, the
//     ledger, and the files of rounds/r12. Temporary name, rename: a kill before the
//     rename leaves the temporary file, which gc deletes.
//     It is no checkpoint yet, since CURRENT's last is 12: a kill here leaves a file that the next
//     commit writes over, and a power cut may leave it damaged;
//  5. write CURRENT with checkpoint 13 and the generations 42, 26, …: temporary name, fsync of it, of checkpoints/000013 and of
//     its folder, rename, fsync of the folder. The rename is the commit:
//     before it the round is open in every store, after it it is closed in every one;
//  6. with --interval, delete the file of a checkpoint that CURRENT now says is forgotten; a kill before leaves
//     it, and gc deletes it;
//  7. unlock.
//
// A crawl of several shards (package shard) has these stores in each of them, and is closed in the same way: step 2 looks at
// all shards, and the one rename of step 5 closes the round in all. LOCK may hold for one machine only. So step 4 makes
// the file by link, synced, under the next number that is free, or takes one that says the same; and step 5 replaces CURRENT only as it was at
// step 1 (store.WriteCurrent). Whoever is too late gets an error: run the command again.
//
// A move of buckets between shards (Crawl.Move) is a round of its own. Its transactions have the verb move. It writes the file of the new bucket
// map, then the transactions in all shards' stores, then steps 1 to 7 with the version of that map in the checkpoint and in CURRENT. A kill before step 5
// leaves the round open under the old map. A move to shards that the old map lacks makes their stores, empty, behind the file of the new map; until CURRENT names
// that map, nothing in their folders counts.
//
// Stores are not written to, but for step 2. Each learns from CURRENT that its generation 42 is the base, when it
// is next opened. Its next transaction moves the name r12 from the manifest to a file of names, and deletes
// generation 41 and the kept outputs of r12.
//
// # Abandon and restore
//
// They too are one rename of CURRENT: with a higher epoch, and other generations. A generation of
// an older epoch does not count. Then each store that nobody holds publishes what counts as a
// new generation, and what no checkpoint needs is deleted. A store that a command holds publishes it
// at its next change; what it needs no more is then deleted by gc, or by the next abandon or restore.
//
// # Repair
//
// Repair writes HEAD of stores, each by one rename, and CURRENT last, and nothing else. It reads where the crawl stands from the newest manifests: each names
// the generation in the checkpoint that it was built on, and its epoch. A kill leaves some of the files made; the same call makes the rest.
//
// # Why
//
//   - CURRENT alone decides. To change a dozen stores at once one would need a log of intents
//     and its recovery; one rename of one small file needs neither.
//   - Checkpoints bind manifests by checksum, so that a manifest that was exchanged is noticed.
//   - Numbers of checkpoints are used once: a number in a log or a script always means the same state.
package crawl
