// Package frontier keeps the URLs that are still to be fetched: Mercator's URL
// frontier, on disk, as sorted runs.
//
// # A URL's life
//
// Add and Update put a URL at the end of its host's queue. It gets a virtual time, v =
// max(V, last virtual time of its host + turn). V is the virtual time that the last batch
// reached. The turn is the number of seconds that a contact with the host and the
// delay after it take, 1 if that is not known. So the frontier serves hosts in turn, each as
// often as it can be contacted, and the 10^7 URLs of one host lie far back
// where nobody reads them (weighted fair queueing; Demers, Keshav and
// Shenker, 1989). Each front queue has virtual times of its own.
//
// Next takes the URLs with the lowest virtual times as a batch, which then is in flight. URLs that a rule of the filter
// refuses now leave the queues, too, but no batch has them: Update finishes them, as "refused". Mercator's back queues, of
// one host each, are not here: they are mfetch's scheduler. Update reads
// one outcome for each URL in flight. It ends the URL, or puts it off (deferred:
// it goes back to its old virtual time, ahead of the rest of its host), or queues it
// again for a later time (a failure that may pass, with back-off and a limit).
// A URL with a due time waits in queue later; Next gives it a virtual time once it is due.
// A host that Update finds dead is left alone for a time; Next lets its URLs wait so long.
// A URL that a setting of the crawl refused, or that its server wants later than a crawl
// waits, is parked: no crawl waits for it, and Release puts it back (see parking).
// A URL that is raised, or added while it waits, gets the higher priority and moves to that front queue (waiting.go).
// New URLs beyond the budget of their registered domain are held, by the round in which
// an Update lets them in or judges them again (Budgets).
//
// # What holds
//
//   - Every URL that went in has exactly one final outcome or is still there:
//     discovered = pending + in flight + finished.
//   - Within one host and front queue (with policy fifo, within one worker), URLs
//     come out in the order in which they went in, unless they had to wait for
//     a time.
//   - A round reads and writes what its batch needs, not what the frontier holds:
//     runs are read from where the last round stopped, hosts are found through the
//     runs' indexes, and runs are merged 24 at a time, step by step, so a URL is
//     rewritten log24(rounds) times and no update copies much more than another.
//     (Policy opic reads and writes all that waits in each update; with refetch these are all pages found.)
//   - Memory does not depend on the number of URLs or hosts.
//   - Every change is one transaction of formats/store.
//
// Nothing here reads the clock or draws random numbers.
//
// # Where things are decided
//
//   - What an outcome means for its URL (final, again and when, put off, parked): judge.go.
//     Update calls it for each outcome row (readOutcomes in outcomes.go), finds the row's URL
//     in the batch (applyOutcomes), and does what the verdict says (applyVerdict). Where the host has failed, and not its URL: outage.go. A policy may change a
//     verdict (hook judged). The flags are in updateCmd, in pkg/command/mfrontier.
//   - Which URL is next: the policy, policy_NAME.go. Fair service, which most of them share: fair.go.
//   - How large a batch is, by number or by time, and which hosts it leaves out: next.go, limits.go, timedbatch.go.
//   - How fast a host is, and when it is dead: hosts.go. How fast it may be asked: pace.go. How long a batch will take: plan.go.
//   - Which URLs of a domain have to wait: domains.go. Which URLs are parked: park.go.
//   - Which rows are of waiting URLs, and what becomes of them: waiting.go, again.go, raise.go.
//   - How rows lie on disk: runs.go, table.go (hosts, domains), merges.go; in memory: sort.go.
//
// # How a policy is added
//
// A policy is a file policy_NAME.go and a line in Params (params.go). The file has
//
//   - a struct of the policy's name with its parameters, which the line embeds. Its tags make
//     the flags of "mfrontier create", the settings of crawl.toml and the keys of the manifest;
//
//   - the three methods of the interface parameters: about describes the policy,
//     complete has defaults and bounds, policy makes the policy itself;
//
//   - the policy itself: a struct that embeds fair and writes the hooks (policy.go) that
//     differ. Most policies need some of these:
//
//     choose   the front queue that the next URL of a batch is taken from
//     due      the key of a URL that is due now
//     level    the front queue of a URL, by what its row says
//     arrive   the key of a new URL
//     ended    whether a URL with its final outcome comes back
//     settle   what is done once in an update, before the queues are written
//     kept     what the policy keeps in the manifest from round to round
//
// policy_dynamic.go is the smallest, policy_priority.go has parameters and front queues, policy_fifo.go
// keeps something, policy_revisit.go comes back to URLs, and policy_opic.go takes over the whole order, and with give.go goes on from shard to shard.
//
// A parameter is a string, bool, int, uint64 or float64; a duration is a string (duration in params.go). The
// settings' table in pkg/config/SPEC.md is made anew by "go test ./pkg/config -update". The
// tests that ask the same of all policies take a new one up by themselves, but pkg/e2e/policies_test.go needs an
// entry, and the lists of policies in this package's tests (crash, restore, park, export) want one. What a policy
// keeps is described in SPEC.md, what it does in POLICIES.md and cmd/mfrontier/manual.md. A policy that is fed by links
// (about.links: onlyLinks) has its own pipe: mcrawl knows it by FromLinks, mercator.mk by the name walk.
package frontier
