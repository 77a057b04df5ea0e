// Package driver runs the commands of a crawl: it puts the seeds in, then makes one round
// after the other until nothing is left to fetch or a bound is reached. The commands of a round run in this
// process, each in goroutines of its own, connected as by a pipe: their files are those that the pipe of processes makes. It holds no crawl logic: what a command does is in that command, what a round
// means in package crawl.
//
//   - Settings come from crawl.toml alone. The commands read it; no flag shapes the crawl.
//   - Whenever the driver is killed, the same call again goes on: each command repeats
//     what it committed, and a round is closed only when all of them have.
//   - What a command has to say comes as values: errors, reports, what it waits for.
//   - Programs of users, and those in CommandsVariable, are processes. None outlives the driver where the system can see to that (Linux).
//   - One driver at a time works on a crawl folder (crawl.Hold).
//
// pipe.go runs commands and says why a pipe failed, round.go has the commands of a round,
// run.go the loop, times.go what the commands of a round took, memory.go what they may take, make.go makes crawl folders.
package driver
