# A Mercator crawl, one file a stage: seeds in, a complete, resumable crawl out.
#
#   make -f mercator.mk CRAWL=crawl SEEDS=seeds.txt CONTACT=you@example.org
#
# Runs rounds until the frontier is empty, but for parked URLs, or ROUNDS is reached. Interrupt or kill
# it at any moment; the same command again goes on where it was. Each file under
# $(CRAWL)/rounds/rN appears complete or not at all:
#
#   batch     what mfrontier chose         resolved  with addresses
#   fetched   what became of each URL      marked    with duplicates marked, of a focused crawl scored
#   links     what the pages link to       new       the URLs never seen before
#   refused   links that were refused       dropped  URLs that waited until a new rule refused them
#   flags     what shaped the rows, for replay.mk
#
# A walk (POLICY=walk) goes by both seen-tests: it has no marked and no new, and
# mfrontier update reads the links. It has no end, so ROUNDS must be given. Policy
# revisit has none either: without ROUNDS the crawl goes on until you interrupt it, and
# waits where no page is due.
#
# Progress: a line after each round; on a terminal mfetch shows its own. "mcrawl status CRAWL --watch" in another terminal
# shows the whole crawl, also after it was resumed.
#
# Variables (all can stand in the environment):
#   CRAWL    crawl folder [crawl]       CONFIG   crawl.toml to start with
#   BIN      folder of the commands, with a trailing slash [from PATH]
#   V        V=1 shows each command as it runs
# Variables that win over the crawl folder's crawl.toml:
#   SEEDS    files of seed URLs, one a line [its seeds]
#   CONTACT  operator's address, for the User-Agent [its contact]
#   BATCH    URLs a round [its batch, or mfrontier's default]
#   ROUNDS   stop after round N; 0: when the frontier is empty [its rounds, or 0]
#   POLICY   order of service, for a new crawl: mfrontier policies [its frontier.policy, or priority]
#   CHECKPOINT_INTERVAL  least time between two checkpoints that are kept
#            [its checkpoint_interval, or 0s: keep all]
# Delays and connections, for next and mfetch alike, so that batches suit them:
#   POLITENESS_FLAGS [crawl.toml's], such as '--min-delay 2s --connections 64'
# Flags for one command each, passed on as they are:
#   INIT_FLAGS SEED_FLAGS [--strict: a bad line of SEEDS is an error] NEXT_FLAGS RESOLVE_FLAGS FETCH_FLAGS MARK_FLAGS
#   EXTRACT_FLAGS RENDER_FLAGS CANON_FLAGS FILTER_FLAGS NEW_FLAGS UPDATE_FLAGS COMMIT_FLAGS

CRAWL   ?= crawl
SEEDS   ?=
SEED_FLAGS ?= --strict
CONFIG  ?=
CONTACT ?=
ROUNDS  ?=
BATCH   ?=
POLICY  ?=
BIN     ?=
CHECKPOINT_INTERVAL ?=

ifneq ($(words [$(CRAWL)] [$(BIN)] [$(strip $(MAKEFILE_LIST))]),3)
$(error mercator.mk: a space in the name of a folder: make has none; mcrawl takes them)
endif

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
THIS := $(lastword $(MAKEFILE_LIST))
export BIN
Q := $(if $(V),,@)
Z := arrows.zst

# One driver at a time: a make that was killed may have left commands behind.
.PHONY: crawl
crawl: $(CRAWL)/CURRENT
	@$(BIN)mckpt hold $(CRAWL) $(MAKE) -f $(THIS) rounds

.PHONY: rounds
rounds: seeded
	@n=$$($(BIN)mckpt rounds $(CRAWL)) && policy=$$($(BIN)mckpt show $(CRAWL) --param frontier.policy) || exit; \
	[ -z '$(POLICY)' ] || [ "$$policy" = '$(POLICY)' ] || { \
	  echo "mercator.mk: $(CRAWL) is a crawl of policy $$policy, which cannot change: for POLICY=$(POLICY) give another folder with CRAWL=" >&2; exit 2; }; \
	rounds='$(ROUNDS)'; [ -n "$$rounds" ] || rounds=$$($(BIN)mckpt show $(CRAWL) --setting rounds) || exit; \
	if [ "$${rounds:-0}" -eq 0 ] && [ "$$policy" = walk ]; then \
	  echo 'mercator.mk: a walk has no end: say how many rounds, ROUNDS=50, or rounds in crawl.toml' >&2; exit 2; fi; \
	while [ "$${rounds:-0}" -eq 0 ] || [ $$n -le $$rounds ]; do \
	  { [ ! -d $(CRAWL)/inbox ] && [ ! -d $(CRAWL)/focus ]; } || $(BIN)mcrawl take $(CRAWL) || exit; \
	  open=$$($(BIN)mckpt show --open-rounds $(CRAWL)) || exit; \
	  if [ -z "$$open" ]; then \
	    if $(BIN)mfrontier stat --empty $(CRAWL)/frontier; then \
	      echo "mercator.mk: the frontier is empty after round $$((n - 1))"; exit 0; \
	    else s=$$?; [ $$s -eq 6 ] || exit $$s; fi; \
	  fi; \
	  $(MAKE) -f $(THIS) round R=$$n || exit; \
	  n=$$((n + 1)); \
	done; echo "mercator.mk: stopped after round $$((n - 1))"

# The seeds in the frontier: checkpoint 1.
.PHONY: seeded
seeded:
	@n=$$($(BIN)mckpt show --next-round $(CRAWL)) || exit; [ "$$n" = 0 ] || exit 0; \
	seeds='$(SEEDS)'; [ -n "$$seeds" ] || seeds=$$($(BIN)mckpt show $(CRAWL) --setting seeds) || exit; \
	[ -n "$$seeds" ] || { echo 'mercator.mk: name a file of seed URLs: SEEDS=seeds.txt, or seeds in crawl.toml' >&2; exit 2; }; \
	mkdir -p $(CRAWL)/rounds/seed && \
	$(BIN)murlset new $(CRAWL)/urls --txn seed --text $(SEED_FLAGS) $$seeds -o $(CRAWL)/rounds/seed/new.$(Z) && \
	$(BIN)mfrontier add $(CRAWL)/frontier --txn seed $(CRAWL)/rounds/seed/new.$(Z) && \
	$(BIN)mckpt commit --quiet $(CRAWL) --txn seed

# The crawl folder and its stores.
$(CRAWL)/CURRENT:
	@for f in $(SEEDS); do [ "$$f" = - ] || [ -r "$$f" ] || { echo "mercator.mk: $$f: no file of seed URLs here" >&2; exit 2; }; done
	$(Q)$(BIN)mckpt init $(CRAWL) $(CONFIG:%=--config %) $(POLICY:%=--policy %) $(INIT_FLAGS)

# --- one round, R ---------------------------------------------------------

D := $(CRAWL)/rounds/r$(R)
T := --txn r$(R)

.PHONY: round
round:
	@mkdir -p $(D) && e=$$($(BIN)mckpt show --epoch $(CRAWL)) && rm -f $(D)/epoch.* && : > $(D)/epoch.$$e && \
	for name in BATCH POLITENESS_FLAGS NEXT_FLAGS MARK_FLAGS EXTRACT_FLAGS RENDER_FLAGS NEW_FLAGS UPDATE_FLAGS; do \
	  eval "value=\$$$$name"; [ -z "$$value" ] || printf '%s=%s\n' "$$name" "$$value"; done > $(D)/flags && \
	policy=$$($(BIN)mckpt show $(CRAWL) --param frontier.policy) && modules=$$($(BIN)mckpt show $(CRAWL) --setting extract.modules) && \
	model=$$($(BIN)mckpt show $(CRAWL) --setting focus.model) && canonical=$$($(BIN)mckpt show $(CRAWL) --setting resolve.canonical) && \
	links=$$($(BIN)mckpt show $(CRAWL) --setting stages.links) && new=$$($(BIN)mckpt show $(CRAWL) --setting stages.new) && \
	pages=$$($(BIN)mckpt show $(CRAWL) --setting render.pages) && rules=$$($(BIN)mckpt show $(CRAWL) --setting render.filter) && \
	$(MAKE) -f $(THIS) $(D)/updated R=$(R) CRAWL_POLICY="$$policy" CRAWL_MODULES="$${modules:+1}" CRAWL_FOCUSED="$${model:+1}" CRAWL_CANONICAL="$$canonical" CRAWL_RENDERED="$$pages$$rules" CRAWL_LINKS="$${links:+1}" CRAWL_NEW="$${new:+1}"
	$(Q)$(BIN)mckpt commit --quiet $(CRAWL) $(T) $(CHECKPOINT_INTERVAL:%=--interval %) $(COMMIT_FLAGS)
	@push=$$($(BIN)mckpt show $(CRAWL) --setting push) && { [ -z "$$push" ] || $(BIN)mckpt push --quiet $(CRAWL) || echo 'mercator.mk: not copied; the crawl goes on' >&2; }
	@$(BIN)mcrawl status --line $(CRAWL)

$(D)/batch.$(Z):
	$(Q)$(BIN)mfrontier next $(CRAWL)/frontier $(T) $(BATCH:%=-n %) $(POLITENESS_FLAGS) --refused $(D)/dropped.$(Z) $(NEXT_FLAGS) -o $@

$(D)/resolved.$(Z): $(D)/batch.$(Z)
	$(Q)$(BIN)mresolve $(CRAWL)/dns $(T) $(RESOLVE_FLAGS) $< -o $@

$(D)/fetched.$(Z): $(D)/resolved.$(Z)
	$(Q)$(BIN)mfetch $(CRAWL)/fetch $(T) $(CONTACT:%=--contact '%') $(POLITENESS_FLAGS) --keep $(D)/politeness.toml $(FETCH_FLAGS) $< -o $@

# In a focused crawl documents are scored, too.
SCORE = $(CRAWL_FOCUSED:%=| $(BIN)mfocus score --warc $(CRAWL)/fetch $(T))

$(D)/marked.$(Z): $(D)/fetched.$(Z)
	$(Q)$(BIN)mfpset mark $(CRAWL)/content $(T) $(MARK_FLAGS) $< $(SCORE) -o $@

# What became of the batch, and what mfrontier update reads of what was found.
ifneq ($(CRAWL_POLICY),)
ifeq ($(CRAWL_POLICY),walk)
OUTCOMES := $(D)/fetched.$(Z)
FOUND := $(D)/links.$(Z)
else
OUTCOMES := $(D)/marked.$(Z)
FOUND := $(D)/new.$(Z)
LINKS := --links $(D)/links.$(Z)
endif

# What the processing modules of crawl.toml find is kept beside the links.
MODULES = $(CRAWL_MODULES:%=--modules $(D)/modules.$(Z))

# The scripts of some pages run.
RENDER = $(if $(CRAWL_RENDERED),| $(BIN)mrender $(CRAWL)/render $(T) --warc $(CRAWL)/fetch --outcomes $(OUTCOMES) --found $(D)/rendered.$(Z) $(RENDER_FLAGS))

# Links to an alias of a host lead to its canonical name.
CANON = $(if $(filter true,$(CRAWL_CANONICAL)),| $(BIN)mresolve canon $(CRAWL)/dns $(T) $(CANON_FLAGS))

# Programs of your own filter links and new URLs.
LINKS_FILTER = $(CRAWL_LINKS:%=| $(BIN)mextract filter $(CRAWL)/modules/links $(T) $(FILTER_FLAGS))
NEW_FILTER = $(CRAWL_NEW:%=| $(BIN)mextract filter $(CRAWL)/modules/new $(T) $(FILTER_FLAGS))

$(D)/links.$(Z): $(OUTCOMES)
	$(Q)$(BIN)mextract --warc $(CRAWL)/fetch $(T) --refused $(D)/refused.$(Z) $(MODULES) $(EXTRACT_FLAGS) $< $(RENDER) $(CANON) $(LINKS_FILTER) -o $@

$(D)/new.$(Z): $(D)/links.$(Z)
	$(Q)$(BIN)murlset new $(CRAWL)/urls $(T) $(NEW_FLAGS) $< $(NEW_FILTER) -o $@

$(D)/updated: $(FOUND)
	$(Q)$(BIN)mfrontier update $(CRAWL)/frontier $(T) $(UPDATE_FLAGS) $< --outcomes $(OUTCOMES) $(LINKS)
	@touch $@
endif
