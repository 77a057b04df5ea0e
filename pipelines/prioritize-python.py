#!/usr/bin/env python3
"""A prioritizer in Python: pages first, what belongs to them later, URLs with a query last.

In crawl.toml, with the name of this file:

    [frontier]
    queues = 3
    prioritizer = "python3 /path/to/prioritize-python.py"

A line of JSON about each new URL comes in. Each must be answered at once, by the number of a
front queue, and perhaps a score. The answer must depend on the line alone.
"""
import json
import sys
from urllib.parse import urlsplit

for line in sys.stdin:
    row = json.loads(line)
    url = urlsplit(row["url"])
    last = url.path.rsplit("/", 1)[-1]
    queue = 2 if url.query else 1 if "." in last and not last.endswith(".html") else 0
    print(queue, row.get("score", 0), flush=True)
