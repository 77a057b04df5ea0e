// Package driver runs the commands of a crawl: it puts the seeds in, then makes one round
// after the other, each a pipe of processes, until nothing is left to fetch or a bound is
// reached. It holds no crawl logic: what a command does is in that command, what a round
// means in package crawl.
//
//   - Settings come from crawl.toml alone. The commands read it; no flag shapes the crawl.
//   - Whatever is killed, the driver or a command, the same call again goes on: each command repeats
//     what it committed, and a round is closed only when all of them have.
//   - No process outlives the driver where the system can see to that (Linux). Elsewhere what is left
//     holds the driver's lock, which it inherited, until it ends.
//   - One driver at a time works on a crawl folder (crawl.Hold).
//
// pipe.go starts processes and says why a pipe failed, round.go has the commands of a round,
// run.go the loop, times.go what the commands of a round took, make.go makes crawl folders.
package driver
