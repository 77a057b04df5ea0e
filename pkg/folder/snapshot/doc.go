// Package snapshot keeps a copy of a crawl elsewhere, in a folder, over rsync or over rclone, and makes a crawl of it again
// where the first one was lost. The layout of the copy is SPEC.md beside this file, version 1.
//
// # Invariants
//
//   - Nothing at the remote is ever written over. A file there has the checksum of its bytes in its name, so it needs no atomic
//     rename: one that is shorter than it should be is sent again.
//   - A snapshot is a list of such files, under a number of its own, and is sent last. One that is not whole does not
//     count, so a push that broke leaves the snapshot before it.
//   - Files that only an older snapshot needs are deleted after the newer one was read back.
//   - What a manifest or a checkpoint has a checksum of is sent with these bytes or not at all. While the checkpoint of a closed
//     round is kept, the copy does not lose a file of it because the crawl did.
//   - Of a file that grows, only what was added is sent.
//   - A folder that is pulled into is no crawl before all of it is there: CURRENT is written last.
//   - The programs that a push or a pull starts end with it (on Linux), and the lock goes with the last of them. So none that was
//     left behind by a kill writes beside the next.
//
// A remote belongs to one crawl folder. When another has pulled from it, and pushes, the remote is its own from then on, and the
// first is refused: two machines cannot go on with one crawl unnoticed. The folder notes what it has published, so it also
// notices another folder of its identity, and a disk that is not mounted.
package snapshot
