# Mercator: a batch web crawler made of Unix commands. "make" prints this help.

COMMANDS := mcrawl mfrontier mresolve mfetch mfpset mextract mrender murlset mmerge mcat mckpt mweb mfocus msearch
# Two of them are programs, and the others links to these: a program each would be 380 MB, with the same packages in all.
MCRAWL    := mcat mckpt mextract mfetch mfocus
MFRONTIER := mfpset mmerge mrender mresolve msearch murlset mweb
PREFIX   ?= /usr/local
DESTDIR  ?=
GO       ?= go

# The same flags for all that compiles, so that nothing is compiled twice; tests that
# run commands take those of "build".
export CGO_ENABLED ?= 0
export GOFLAGS     += -trimpath
export MERCATOR_BIN := $(CURDIR)/bin

.PHONY: help
help: ## this help
	@echo 'Mercator: a batch web crawler made of Unix commands.'; echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo 'make crawl SEEDS=seeds.txt CONTACT=you@example.org CRAWL=mine crawls the web from the URLs in seeds.txt into the folder mine.'

.PHONY: build
build: ## the commands, in bin/
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/mcrawl ./cmd/mfrontier
	@$(MAKE) --no-print-directory links LINKS=bin

# Hard links where the disk has them: go build would write through a symbolic one.
.PHONY: links
links:
	@cd "$(LINKS)" && link() { program=$$1; shift; for c; do ln -f $$program $$c 2> /dev/null || ln -sf $$program $$c || exit 1; done; } && \
	  link mcrawl $(MCRAWL) && link mfrontier $(MFRONTIER)

# Most of the time these tests would wait for fsync: their files are in memory if there is room. With TMPDIR they are there. So are
# the binaries that go links: with GOTMPDIR elsewhere the tests' folders would be there, too. Many tests wait for webs, kills and
# commands: more packages than there are processors run at a time, at most 8, as each needs memory (GOFLAGS=-p=2: 2), the longest
# from the beginning.
.PHONY: test
test: build ## all tests that need Go modules only
	@if [ -z "$$TMPDIR" ] && memory=$$(.ci/memory); then export TMPDIR="$$memory"; fi; \
	p=$$(($$(nproc 2> /dev/null || getconf _NPROCESSORS_ONLN) + 2)); [ $$p -le 8 ] || p=8; \
	GOFLAGS="-p=$$p $$GOFLAGS" $(GO) test -vet=off -timeout 60m ./pkg/e2e ./...

# Of the tests that do more when MERCATOR_LONG is set those that take a minute or so. Crawls
# wait for their webs and for the disk: more of them than there are processors run at a time.
LONG := CrawlEqualsOracle|TestShards$$|Policies|SetImplementations|HelperIsKilled|CrawlWithoutItsSettings|RandomPolynomial|BatchSize|TestKill|StageDies|RestoreAndAbandon|CutFiles|FlippedBits|TestModules|TestFocused|TestReplay$$|HostsAreServedInTime|OpicIsGreedy|TestSnapshots$$|RestorePastDamage|TestRepair$$|TestHints$$|TestCrash$$|TestCrashShards|TestCrashMove|TwoMachines|BetweenRounds|TestAgainstModel|TestShardsMove|TestShardsAreKilled|TestAliases|TestMemory$$
.PHONY: test-long
test-long: build ## the long forms of the tests of whole crawls, of checkpoints, of fetching and of policy opic: more webs, kills, hosts, pages
	MERCATOR_LONG=1 $(GO) test -count=1 -parallel 4 -timeout 60m -run '$(LONG)' ./pkg/e2e ./pkg/fetch ./pkg/frontier ./pkg/crawl ./pkg/command/mextract
	MERCATOR_LONG=1 $(GO) test -count=1 -timeout 20m -run '^TestSlowHosts$$' ./pkg/e2e

# The packages with goroutines, with the race detector. Tests that bound memory or time, or take long there, show nothing more there.
RACE      := ./pkg/fetch ./pkg/fetch/http1 ./pkg/driver/... ./pkg/cli ./pkg/resolve ./pkg/folder/stage ./pkg/base/coprocess ./pkg/web/process
RACE_SKIP := Memory|Allocat|Linear|Hostile|Costly|AgainstModel|AtEveryCall|TestSpec|Frequencies|Uniformly|Rewrites|Greedy|ServedInTime|TestReadTrailer|MeasuresSets|AvoidsTraps|MoreHosts|WhatWasCut|AllowDocumentation
.PHONY: race
race: ## the packages with goroutines under the race detector (needs a C compiler; some minutes)
	CGO_ENABLED=1 $(GO) test -race -vet=off -timeout 30m -skip '$(RACE_SKIP)' $(RACE)

# Versions that are pinned here alone: what lint finds does not change by itself.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE    := golang.org/x/tools/cmd/deadcode@v0.52.0
.PHONY: lint
lint: ## go vet, staticcheck (staticcheck.conf), and functions that nothing calls
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	@dead=$$($(GO) run $(DEADCODE) -test ./...) || exit; [ -z "$$dead" ] || { echo "$$dead"; exit 1; }

.PHONY: test-sets
test-sets: build ## what the set commands give against sort and comm, on ten million lines (some minutes)
	MERCATOR_LINES=10000000 $(GO) test -count=1 -timeout 60m -run EqualSortAndComm ./pkg/e2e

.PHONY: crawl
crawl: build ## crawl the embedded web, or SEEDS=, to the end, in the folder CRAWL= (crawl)
	@set --; crawl=$${CRAWL:-crawl}; [ "$$ROUNDS" != 0 ] || ROUNDS=; for s in $$SET; do set -- "$$@" --set "$$s"; done; \
	[ -z "$$POLICY" ] || set -- "$$@" --policy "$$POLICY"; \
	if [ -n "$$SEEDS" ]; then \
	  for s in $$SEEDS; do set -- "$$@" --seeds "$$s"; done; \
	  [ -z "$$CONTACT" ] || set -- "$$@" --contact "$$CONTACT"; [ -z "$$CONFIG" ] || set -- "$$@" --config "$$CONFIG"; \
	  bin/mcrawl new "$$crawl" "$$@" || { status=$$?; echo 'make: hint: CRAWL=FOLDER names another folder; the commands are in bin/' >&2; exit $$status; }; \
	fi; \
	if [ -n "$$SEEDS" ] || { [ -e "$$crawl/CURRENT" ] && [ ! -e "$$crawl/web.json" ]; }; then exec bin/mcrawl run "$$crawl" $${ROUNDS:+--rounds "$$ROUNDS"}; fi; \
	exec bin/mcrawl try "$$crawl" "$$@" $${ROUNDS:+--rounds "$$ROUNDS"} $${SEED:+--seed "$$SEED"} $${HOSTS:+--hosts "$$HOSTS"} $${PAGES:+--pages "$$PAGES"}

.PHONY: crawl-docs
crawl-docs: build ## crawl Debian's documentation behind nginx and compare with wget (needs nginx, dnsmasq, wget)
	@pipelines/crawl-docs.sh

.PHONY: interop
interop: build ## other programs read our files, and ours theirs (needs python3, zstd, wget, PyPI)
	@pkg/e2e/interop.sh

.PHONY: fencing
fencing: build ## machines that take each other for lost, with locks that hold for one alone (needs strace, python3, PyPI)
	@set -e; venv=$$(mktemp -d); trap 'rm -rf "$$venv"' EXIT; \
	python3 -m venv "$$venv"; "$$venv/bin/pip" install --quiet --disable-pip-version-check warcio; \
	MERCATOR_BIN=$(CURDIR)/bin MERCATOR_FENCING=1 WARCIO=$$venv/bin/python $(GO) test ./pkg/e2e -run TestFencing -count=1 -timeout 15m

.PHONY: archives
archives: build ## what we read in archives, beside warcio, FastWARC, cdxj-indexer (needs wget, python3, PyPI)
	@bench/archives.sh

.PHONY: protocols
protocols: build ## crawl over FTP, Gopher and a program, to the end (needs python3-pyftpdlib, gophernicus)
	@pkg/e2e/protocols.sh

.PHONY: modules
modules: build ## programs of Debian as processing modules (needs tidy, catdoc)
	@pkg/e2e/modules.sh

.PHONY: focus
focus: build ## the focused crawler: WordNet compared with wn, a crawl under kills, its harvest (needs wordnet)
	@pkg/e2e/focus.sh

.PHONY: walks
walks: build ## what people do with a crawl, each step checked (needs nginx, nghttpd, openssl, chromium, jq, python3, PyPI)
	@set -e; for walk in pkg/e2e/walk-*.sh; do echo "--- $$walk"; $$walk; done

.PHONY: pages
pages: build ## each line of the tutorial and of the recipes (needs python3, dnsmasq, PyPI)
	@set -e; venv=$$(mktemp -d); trap 'rm -rf "$$venv"' EXIT; \
	python3 -m venv "$$venv"; "$$venv/bin/pip" install --quiet --disable-pip-version-check duckdb-cli; \
	PATH=$$venv/bin:$$PATH MERCATOR_PAGES='python3 duckdb dnsmasq' $(GO) test ./pkg/e2e -run '^TestTutorial$$|^TestRecipes$$' -count=1 -timeout 15m

.PHONY: browser
browser: ## our links of pages against Chromium's (needs chromium, documentation packages, PyPI)
	@pkg/e2e/browser.sh

.PHONY: render
render: build ## pages that scripts make, in Chromium, and crawls of such sites (needs chromium, npm, python3, PyPI)
	@pkg/e2e/render.sh

.PHONY: dns
dns: build ## names of a generated zone, compared with dig (needs nsd, dnsutils)
	@pkg/e2e/dns.sh

.PHONY: disk-full
disk-full: build ## crawl on a disk that fills up, make room, go on (needs root or user namespaces)
	@pkg/e2e/disk-full.sh

.PHONY: snapshots
snapshots: build ## copies of a crawl over rsync, ssh and rclone, under kills (needs rclone, rsync, openssh-server)
	@pkg/e2e/snapshots.sh

.PHONY: soak
soak: build ## crawl hosts of all kinds under kills at random, for two minutes or MINUTES= (needs Linux)
	@pkg/e2e/soak.sh

.PHONY: engines
engines: build ## crawl on a real Slurm and a real Spark, whose nodes are killed (needs slurm-wlm, munge, strace, java, python3, PyPI)
	@pkg/e2e/engines.sh

.PHONY: hour
hour: build ## a crawl of MINUTES=60 of two webs: pace, memory, disk, files stay flat (needs Linux; 35 GB of disk for an hour)
	@bench/hour.sh $(MINUTES)

.PHONY: bench-sets
bench-sets: ## sets beside GNU sort and comm, Pebble, memcpy, at N=1e6 keys (some two minutes)
	@bench/sets.sh

.PHONY: cross
# Two programs are all that is handed on. go vet compiles the rest, tests too. Nothing is kept, so there are no tables for debuggers.
CROSS = linux/arm64 darwin/arm64 windows/amd64
cross: ## compile and link for the other machines: Linux and macOS on arm64, Windows (CROSS=freebsd/amd64: for that)
	@bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; \
	for to in $(CROSS); do echo "$$to"; export GOOS=$${to%/*} GOARCH=$${to#*/}; \
	  case $$GOOS in windows) of='./formats/... ./pkg/... ./cmd/...' ;; *) of=./... ;; esac; \
	  $(GO) build -ldflags='-s -w' -o "$$bin/" ./cmd/mcrawl ./cmd/mfrontier && all=$$($(GO) list $$of) || exit 1; \
	  [ $$GOOS != windows ] || all=$$(echo "$$all" | grep -v /e2e); \
	  $(GO) vet $$all || exit 1; done

.PHONY: report-check
report-check: build ## the page of mcrawl report in headless Chromium (needs chromium, python3)
	@pkg/e2e/report.sh

.PHONY: man
man: build ## manual pages and shell completion, in bin/share
	cmd/manuals.sh bin bin/share $(COMMANDS)

# Of pipelines/ what people use; the others test this tree.
SCRIPTS := $(wildcard $(addprefix pipelines/,google98.sh archive97.sh stage-*.sh module-*.sh prioritize-*.sh))
OTHERS  := $(wildcard $(addprefix pipelines/,module-*.py prioritize-*.py stage-*.py *.mk *.md Snakefile Containerfile))
RECIPES := $(wildcard pipelines/recipes/*.md)
UNITS   := $(wildcard pipelines/systemd/*)
# What these pages link to, and what that does. Links to source become plain text.
PAGES   := README.md pipelines/report.png $(wildcard .github/*.md bench/*.md bench/*/*.md bench/*/*.svg cmd/*/manual.md formats/*.md formats/*/SPEC.md pkg/*.md pkg/*/*.md pkg/*/*/*.md)

# mtools has an mcat too. What is installed is listed in share/mercator/installed, for uninstall.
.PHONY: install
install: build ## commands, manual pages, completion, pipelines into PREFIX
	@mcat="$(DESTDIR)$(PREFIX)/bin/mcat"; [ ! -e "$$mcat" ] || "$$mcat" --version 2> /dev/null < /dev/null | grep -q '^mcat .*go1\.' || \
	  { echo "install: $$mcat: another program's, of mtools perhaps, want none or Mercator's" >&2; echo 'install: hint: make install PREFIX=/opt/mercator' >&2; exit 2; }
	@other=$$(command -v mcat || :); case $$other in '' | "$(PREFIX)/bin/mcat" | "$(CURDIR)"/*) ;; \
	  *) echo "note: $$other is there, of mtools perhaps; which mcat is meant goes by PATH" >&2;; esac
	$(MAKE) --no-print-directory install-shared
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 bin/mcrawl bin/mfrontier "$(DESTDIR)$(PREFIX)/bin"
	@$(MAKE) --no-print-directory links LINKS="$(DESTDIR)$(PREFIX)/bin"
	@list="$(DESTDIR)$(PREFIX)/share/mercator/installed"; { [ ! -e "$$list" ] || cat "$$list"; \
	  printf '%s\n' share/zsh/site-functions/_mercator $(SCRIPTS:%=share/mercator/%) $(OTHERS:%=share/mercator/%) $(RECIPES:%=share/mercator/%) $(UNITS:%=share/mercator/%) $(PAGES:%=share/mercator/%); \
	  (cd bin/share && printf 'share/man/%s\n' man?/*); \
	  for c in $(COMMANDS); do printf '%s\n' "bin/$$c" "share/bash-completion/completions/$$c" "share/fish/vendor_completions.d/$$c.fish"; done; \
	} | sort -u > bin/installed && install -m 644 bin/installed "$$list" && rm bin/installed

.PHONY: install-shared
install-shared: man
	install -d $(foreach d,mercator/pipelines/recipes mercator/pipelines/systemd man/man1 man/man5 bash-completion/completions zsh/site-functions fish/vendor_completions.d,"$(DESTDIR)$(PREFIX)/share/$(d)")
	install -m 644 bin/share/man1/* "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 644 bin/share/man5/* "$(DESTDIR)$(PREFIX)/share/man/man5"
	for c in $(COMMANDS); do \
	  install -m 644 bin/share/completion/mercator.bash "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$c" && \
	  install -m 644 bin/share/completion/mercator.fish "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$c.fish" || exit 1; done
	install -m 644 bin/share/completion/mercator.zsh "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_mercator"
	install -m 755 $(SCRIPTS) "$(DESTDIR)$(PREFIX)/share/mercator/pipelines"
	install -m 644 $(OTHERS) "$(DESTDIR)$(PREFIX)/share/mercator/pipelines"
	install -m 644 $(RECIPES) "$(DESTDIR)$(PREFIX)/share/mercator/pipelines/recipes"
	install -m 644 $(UNITS) "$(DESTDIR)$(PREFIX)/share/mercator/pipelines/systemd"
	@for p in $(PAGES); do f="$(DESTDIR)$(PREFIX)/share/mercator/$$p"; install -d "$${f%/*}" && install -m 644 "$$p" "$$f" || exit 1; done
	@for f in $(filter %.md,$(PAGES) $(OTHERS) $(RECIPES)); do sed 's/\[\([^]]*\)\]([^)]*\.go)/\1/g' "$$f" > "$(DESTDIR)$(PREFIX)/share/mercator/$$f" || exit 1; done

.PHONY: install-check
install-check: ## what make install gives: each manual page, completion in three shells (needs mandoc, zsh, fish)
	@pkg/e2e/install-check.sh

.PHONY: licences
licences: ## the list of what is linked in, pkg/LICENCES.md
	$(GO) test ./pkg/arch -count=1 -run '^TestLicences$$' -args -update

.PHONY: dist
dist: ## tarballs, .deb, checksums, SBOM and licences, in dist/ (needs git, GNU tar)
	@.ci/dist.sh

.PHONY: dist-check
dist-check: ## the same twice, compared; the .deb installed, used and removed (needs root and dpkg)
	@.ci/dist.sh --check

.PHONY: uninstall
uninstall: ## what install put there
	@top="$(DESTDIR)$(PREFIX)"; list=$$top/share/mercator/installed; \
	[ -e "$$list" ] || { echo "uninstall: $$list: not there, want the list that make install writes" >&2; echo 'uninstall: hint: give the PREFIX of make install' >&2; exit 2; }; \
	while IFS= read -r file; do rm -f "$$top/$$file" || exit 1; done < "$$list"; \
	dirs=$$(sed 's,/[^/]*$$,,' "$$list"; echo share/mercator); rm -f "$$list"; cd "$$top" && \
	printf '%s\n' "$$dirs" | sort -ru | while IFS= read -r dir; do rmdir -p "$$dir" 2> /dev/null || :; done

.PHONY: clean
clean: ## remove bin/ and dist/, and what killed tests left in memory; folders of crawls stay
	rm -rf bin dist
	@.ci/memory --remove
