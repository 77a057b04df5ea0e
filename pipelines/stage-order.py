#!/usr/bin/env python3
"""An order of your own for the frontier of a crawl: a filter of new URLs that
gives them priorities. Hosts of which few URLs were found come first, those of
which many were found later, and URLs with a query last.

    [stages]
    new = "python3 /path/to/stage-order.py"        # in crawl.toml
    [frontier]
    queues = 3                                     # priorities 0, 1 and 2
    strict = true                                  # a queue waits until those before it are empty

How many URLs a host has the program remembers from round to round, in its
folder: mextract(1), "Stages of your own".
"""
import json
import os
import sys
from urllib.parse import urlsplit

if os.environ["MERCATOR_EVENT"] != "rows":
    sys.exit()

state = os.path.join(os.environ["MERCATOR_MODULE_DIR"], "hosts.json")
found = json.load(open(state)) if os.path.exists(state) else {}

for line in sys.stdin:
    row = json.loads(line)
    found[row["host"]] = n = found.get(row["host"], 0) + 1
    priority = 2 if urlsplit(row["url"]).query else 0 if n <= 20 else 1
    print(json.dumps({"priority": priority, "score": 1 / n}), flush=True)

with open(state, "w") as out:
    json.dump(found, out)
