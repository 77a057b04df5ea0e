#!/usr/bin/env python3
"""The URL-seen test of a crawl as a B-tree on disk, which Heydon and Najork
(1999, section 3.5) name as the alternative to their own structure: a table of
SQLite in the place of the sorted runs of murlset.

    [stages]                                       # in crawl.toml, before the crawl is made
    seen = "python3 /path/to/stage-seen.py"

With "content" as its argument it is the content-seen test:

    content = "python3 /path/to/stage-seen.py content"

mextract(1), "Stages of your own", says what a program is asked. The folder
is a copy that becomes the crawl's state with the round, or not at all, so there
is nothing to do for crashes: no journal, no fsync. Python is the one of the
PATH, without any packages.
"""
import json
import os
import sqlite3
import sys

if os.environ["MERCATOR_EVENT"] != "rows":  # begin, commit, abort
    sys.exit()

db = sqlite3.connect(os.path.join(os.environ["MERCATOR_MODULE_DIR"], "seen.db"), isolation_level=None)
db.execute("PRAGMA journal_mode = OFF")
db.execute("PRAGMA synchronous = OFF")
db.execute("CREATE TABLE IF NOT EXISTS seen (key TEXT PRIMARY KEY) WITHOUT ROWID")
db.execute("BEGIN")


def unseen(key):
    """Adds a key. It is seen if it is in the table already."""
    return db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,)).rowcount == 1


for line in sys.stdin:
    row = json.loads(line)
    if sys.argv[1:] == ["content"]:
        document = "%s %d %s" % (row.get("content_fp", ""), row["body_length"], bool(row.get("truncated")))
        answer = {} if unseen(document) else {"duplicate": True}
    else:
        answer = {} if unseen(row["url_key"]) else None
    print(json.dumps(answer), flush=True)

db.execute("COMMIT")
db.close()
