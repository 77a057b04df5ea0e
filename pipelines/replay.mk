# Repeats a crawl from its records, and compares every stage's rows with those
# that were saved. Contacts nobody.
#
#   make -f replay.mk CRAWL=crawl REPLAY=crawl-replay
#
# CRAWL is a crawl by mercator.mk or mcrawl; REPLAY, a folder to make, becomes
# the same crawl once more. Each round that a checkpoint closed is made again with
# its own clock, its names and replies taken from CRAWL/fetch, and each stage file
# that CRAWL/rounds/rN holds must have the same rows, byte for byte in
# "mcat --canonical". The first that has not is named, with its first row that
# differs, and make fails. At the end the states of processing modules must be the
# same, unless a round of CRAWL is open. Interrupted, the same command goes on.
#
# What shaped the rows stands in crawl.toml and in rounds/rN/flags, which the
# pipelines write; flags given by hand to single commands have to be given here.
# URLs of "mcrawl add" and "again" are taken from rounds/addN and rounds/againN, those
# that mfocus distill raised from rounds/raiseN. What cannot be
# repeated from the records shows as a difference: a stage of your
# own, URLs added or released behind the pipelines' back, batches taken by
# another version of mfrontier that learns the speeds of hosts in another way, and
# rounds whose files were written anew after "mckpt restore", when a later restore
# took the older ones again ("mckpt verify" names them).
#
# Each round reads through all WARC files of the crawl twice.
#
# Variables (all can stand in the environment):
#   CRAWL    crawl folder [crawl]       REPLAY   folder to make [$(CRAWL)-replay]
#   THREADS  of each command            ROUNDS   stop after round N [0: the last one]
#   BIN      folder of the commands, with a trailing slash [from PATH]
#   V        V=1 shows each command as it runs

CRAWL   ?= crawl
REPLAY  ?= $(CRAWL)-replay
THREADS ?=
ROUNDS  ?= 0
BIN     ?=

ifneq ($(words [$(CRAWL)] [$(REPLAY)] [$(BIN)] [$(strip $(MAKEFILE_LIST))]),4)
$(error replay.mk: a space in the name of a folder: make has none)
endif

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
ifeq ($(V),)
.SILENT:
endif
THIS := $(lastword $(MAKEFILE_LIST))
Z := arrows.zst
Q := --quiet $(THREADS:%=--threads %)

.PHONY: replay
replay: $(REPLAY)/seed.same
	@rounds=$$($(BIN)mckpt rounds --closed $(CRAWL)) && done=$$($(BIN)mckpt rounds --closed $(REPLAY)) || exit; n=0; \
	for r in $$rounds; do \
	  case $$r in seed) continue ;; add*|again*|raise*) target=$${r%%[0-9]*} ;; \
	  r[0-9]*) target=round; [ $(ROUNDS) -eq 0 ] || [ $${r#r} -le $(ROUNDS) ] || break; n=$$((n + 1)) ;; *) continue ;; esac; \
	  if echo "$$done" | grep -qx "$$r"; then continue; fi; \
	  $(MAKE) -f $(THIS) $$target R=$$r || exit; \
	done; \
	open=$$($(BIN)mckpt show --open-rounds $(CRAWL)) || exit; \
	if [ $(ROUNDS) -eq 0 ] && [ -z "$$open" ]; then \
	  for m in $(CRAWL)/modules/*/; do [ -d "$$m" ] || continue; m=$${m%/}; \
	    t=$$(mktemp -d) && $(BIN)mextract state $$m > $$t/saved && $(BIN)mextract state $(REPLAY)/modules/$${m##*/} > $$t/replayed && cmp $$t/saved $$t/replayed || \
	      { rm -rf "$$t"; echo "replay.mk: the state of $(REPLAY)/modules/$${m##*/} is not that of $$m" >&2; exit 1; }; \
	    rm -rf "$$t"; \
	  done; fi; \
	echo "replay.mk: $$n rounds of $(CRAWL) repeated in $(REPLAY): the rows of every stage are the same"

$(REPLAY)/CURRENT:
	@mkdir -p $(REPLAY); seeds=$$($(BIN)mckpt show $(CRAWL) --setting seeds) || exit; for f in $$seeds; do \
	  d=$$(realpath --relative-to=$(CRAWL) "$$f") || exit; case $$d in ..|../*) continue ;; esac; \
	  mkdir -p "$$(dirname "$(REPLAY)/$$d")" && cp "$$f" "$(REPLAY)/$$d" || exit; done
	@for key in extract.filter network.deny focus.model render.filter; do \
	  f=$$($(BIN)mckpt show $(CRAWL) --setting $$key) || exit; \
	  case $$key:$$f in *:|extract.filter:default) continue ;; esac; \
	  files=$$(basename "$$f"); \
	  case $$key in extract.filter|render.filter) files=$$($(BIN)mextract explain --config $(CRAWL)/crawl.toml --filter "$$f" --list-files) || exit ;; esac; \
	  d=$$(realpath --relative-to=$(CRAWL) "$$(dirname "$$f")") || exit; \
	  case $$d in ..|../*) continue ;; esac; \
	  echo "$$files" | while IFS= read -r x; do case $$x in /*) ;; *) \
	    mkdir -p "$$(dirname "$(REPLAY)/$$d/$$x")" && cp "$(CRAWL)/$$d/$$x" "$(REPLAY)/$$d/$$x" || exit ;; esac; done || exit; done
	@p=; [ -n "$$($(BIN)mckpt show $(CRAWL) --setting stages.seen)" ] || p=$$($(BIN)mckpt show $(CRAWL) --param urls.polynomial) && \
	o=$$($(BIN)mckpt show $(CRAWL) --param frontier.policy) && \
	$(BIN)mckpt init --quiet $(REPLAY) --config $(CRAWL)/crawl.toml $${p:+--polynomial $$p} --policy $$o

# $(call same,FILE,STAGE): the rows of FILE are those that the crawl saved. A crawl
# by mcrawl keeps the files of some stages only.
define same
@a=$(FROM)/$1.$(Z); b=$(D)/$1.$(Z); d=$(REPLAY)/differs; \
[ -e $$a ] || exit 0; \
[ -e $$b ] || { echo "replay.mk: round $(R), stage $2: no $$b to compare with $$a: the settings are others now" >&2; exit 1; }; \
t=$$(mktemp -d) && trap 'rm -rf "$$t"' EXIT && \
$(BIN)mcat --quiet --canonical $$a > "$$t/saved" && $(BIN)mcat --quiet --canonical $$b > "$$t/replayed" || exit; \
if cmp -s "$$t/saved" "$$t/replayed"; then exit; fi; \
diff "$$t/saved" "$$t/replayed" > $$d; \
echo "replay.mk: round $(R), stage $2: the rows of $$b are not those of $$a" >&2; \
echo "replay.mk: the first difference (< saved, > replayed; all of them: $$d):" >&2; \
head -4 $$d | cut -c 1-1000 >&2; exit 1
endef

MODULES = $(if $(wildcard $(FROM)/modules.$(Z)),--modules $(D)/modules.$(Z))

# The seeds, from the records that murlset made of them: checkpoint 1.
$(REPLAY)/seed.same: R := seed
$(REPLAY)/seed.same: FROM := $(CRAWL)/rounds/seed
$(REPLAY)/seed.same: D := $(REPLAY)/rounds/seed
$(REPLAY)/seed.same: | $(REPLAY)/CURRENT
	@mkdir -p $(D)
	$(BIN)mcat --format arrow --quiet $(FROM)/new.$(Z) | $(BIN)murlset new $Q $(REPLAY)/urls --txn seed -o $(D)/new.$(Z)
	$(call same,new,murlset new)
	$(BIN)mfrontier add $Q $(REPLAY)/frontier --txn seed $(D)/new.$(Z)
	$(BIN)mckpt commit --quiet $(REPLAY) --txn seed
	@touch $@

# --- one round, R ---------------------------------------------------------

ifneq ($(R),)
FROM := $(CRAWL)/rounds/$(R)
D := $(REPLAY)/rounds/$(R)
T := --txn $(R)

# BATCH and the *_FLAGS as they were. crawl.toml is as it is now: see README.md.
-include $(FROM)/flags

# A walk goes by both seen-tests.
POLICY := $(shell $(BIN)mckpt show $(CRAWL) --param frontier.policy)
ifeq ($(POLICY),)
$(error replay.mk: the policy of $(CRAWL) cannot be read)
endif
WALK := $(filter walk,$(POLICY))
OUTCOMES := $(if $(WALK),fetched,marked)
FOUND := $(if $(WALK),links,new)
endif

# URLs that mcrawl add put in, as seeds are, and those that mcrawl again took once more.
.PHONY: add
add:
	@mkdir -p $(D)
	$(BIN)mcat --format arrow --quiet $(FROM)/new.$(Z) | $(BIN)murlset new $Q $(REPLAY)/urls $(T) -o $(D)/new.$(Z)
	$(call same,new,murlset new)
	$(BIN)mfrontier add $Q $(REPLAY)/frontier $(T) $(D)/new.$(Z)
	$(BIN)mckpt commit --quiet $(REPLAY) $(T)

.PHONY: again
again:
	@mkdir -p $(D)
	$(BIN)mcat --format arrow --quiet $(FROM)/again.$(Z) > $(D)/again.arrow
	[ ! -e $(FROM)/links.$(Z) ] || $(BIN)mcat --format arrow --quiet $(FROM)/links.$(Z) | $(BIN)murlset new $Q $(REPLAY)/urls $(T) -o $(D)/new.$(Z)
	$(if $(wildcard $(FROM)/new.$(Z)),$(call same,new,murlset new))
	$(BIN)mfrontier add $Q --again $(REPLAY)/frontier $(T) $(D)/again.arrow $(if $(wildcard $(FROM)/new.$(Z)),$(D)/new.$(Z))
	$(BIN)mckpt commit --quiet $(REPLAY) $(T)

# Waiting URLs that mfocus distill raised: its own scores are no part of the crawl.
.PHONY: raise
raise:
	@mkdir -p $(D)
	$(BIN)mcat --format arrow --quiet $(FROM)/raised.$(Z) > $(D)/raised.arrow
	$(BIN)mfrontier raise $Q $(REPLAY)/frontier $(T) $(D)/raised.arrow
	$(BIN)mckpt commit --quiet $(REPLAY) $(T)

.PHONY: round
round: $(D)/$(FOUND).same
	$(BIN)mfrontier update $Q $(REPLAY)/frontier $(T) $(UPDATE_FLAGS) $(D)/$(FOUND).$(Z) --outcomes $(D)/$(OUTCOMES).$(Z) $(if $(WALK),,--links $(D)/links.$(Z))
	$(BIN)mckpt commit --quiet $(REPLAY) $(T)

$(D)/batch.same:
	@for f in $(OUTCOMES) links; do [ -e $(FROM)/$$f.$(Z) ] || { echo "replay.mk: round $(R): no $(FROM)/$$f.$(Z)" >&2; exit 1; }; done
	@mkdir -p $(D)
	trailer=$$($(BIN)mcat --trailer $(FROM)/$(OUTCOMES).$(Z)) && now=$$(echo "$$trailer" | sed -n 's/.*"now":"\([^"]*\)".*/\1/p') && \
	$(BIN)mfrontier next $Q $(REPLAY)/frontier $(T) $(BATCH:%=-n %) --now "$$now" $(POLITENESS_FLAGS) --refused $(D)/dropped.$(Z) $(NEXT_FLAGS) -o $(D)/batch.$(Z)
	$(call same,batch,mfrontier next)
	$(call same,dropped,mfrontier next --refused)
	@touch $@

$(D)/resolved.same: $(D)/batch.same
	$(BIN)mresolve $Q $(REPLAY)/dns $(T) --replay $(CRAWL)/fetch $(D)/batch.$(Z) -o $(D)/resolved.$(Z)
	$(call same,resolved,mresolve)
	@touch $@

$(D)/fetched.same: $(D)/resolved.same
	$(if $(wildcard $(FROM)/politeness.*),cp $(wildcard $(FROM)/politeness.*) $(D))
	$(BIN)mfetch $Q $(REPLAY)/fetch $(T) --replay $(CRAWL)/fetch $(D)/resolved.$(Z) -o $(D)/fetched.$(Z)
	$(call same,fetched,mfetch)
	@touch $@

SCORE = $(if $(shell $(BIN)mckpt show $(CRAWL) --setting focus.model),| $(BIN)mfocus score $Q --warc $(CRAWL)/fetch --learned $(REPLAY)/modules/focus $(T))

$(D)/marked.same: $(D)/fetched.same
	$(BIN)mfpset mark $Q $(REPLAY)/content $(T) $(MARK_FLAGS) $(D)/fetched.$(Z) $(SCORE) -o $(D)/marked.$(Z)
	$(call same,marked,mfpset mark)
	@touch $@

STAGES = $(shell $(BIN)mcat --trailer $(FROM)/links.$(Z))
RENDER = $(if $(findstring "mrender",$(STAGES)),| $(BIN)mrender $Q $(REPLAY)/render --warc $(CRAWL)/fetch $(T) --outcomes $(D)/$(OUTCOMES).$(Z) --found $(D)/rendered.$(Z) $(RENDER_FLAGS))
CANON = $(if $(findstring "mresolve canon",$(STAGES)),| $(BIN)mresolve canon $Q $(REPLAY)/dns $(T) --replay $(FROM)/links.$(Z))

# A round without its new URLs is taken to have had today's filter of these.
FILTER = $(if $(if $(wildcard $(FROM)/$1.$(Z)),$(findstring "modules/$1",$(shell $(BIN)mcat --trailer $(FROM)/$1.$(Z))),$(shell $(BIN)mckpt show $(CRAWL) --setting stages.$1)),| $(BIN)mextract filter $Q $(REPLAY)/modules/$(1) $(T))

$(D)/links.same: $(D)/$(OUTCOMES).same
	$(BIN)mextract $Q --warc $(CRAWL)/fetch --module-stores $(REPLAY)/modules $(T) --refused $(D)/refused.$(Z) $(MODULES) $(EXTRACT_FLAGS) $(D)/$(OUTCOMES).$(Z) $(RENDER) $(CANON) $(call FILTER,links) -o $(D)/links.$(Z)
	$(call same,links,mextract$(if $(RENDER), | mrender)$(if $(CANON), | mresolve canon))
	$(call same,modules,mextract --modules)
	$(call same,rendered,mrender --found)
	$(call same,refused,mextract --refused)
	@touch $@

$(D)/new.same: $(D)/links.same
	$(BIN)murlset new $Q $(REPLAY)/urls $(T) $(NEW_FLAGS) $(D)/links.$(Z) $(call FILTER,new) -o $(D)/new.$(Z)
	$(call same,new,murlset new)
	@touch $@
