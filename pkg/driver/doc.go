// Package driver runs a crawl: it puts the seeds in, then makes one round
// after the other until nothing is left to fetch or a bound is reached. It holds no crawl logic: what a command does is in that command, what a
// round means in package crawl.
//
//   - Settings come from crawl.toml alone. The commands read it; no flag shapes the crawl.
//   - Whenever the driver is killed, the same call again goes on: each command repeats
//     what it committed, and a round is closed only when all of them have.
//   - One driver at a time works on a crawl folder (crawl.Hold).
//
// Below it, package pipe runs commands in this process, package setup makes crawl folders, and package tell tells people about a crawl. Each imports only those before it.
//
// run.go has the loop, round.go the commands of a round, stage.go and shards.go its stages in several shards, engine.go what runs these
// on other machines, inbox.go and again.go what people ask for meanwhile, move.go the moves of hosts between shards, memory.go what commands may take.
package driver
