#!/usr/bin/env python3
"""A processing module in Python that stays: how many words a page has, and its headings.

In crawl.toml, with the name of this file:

    [extract]
    modules = ["words=text/html:stay python3 /path/to/module-python.py"]

By hand, over any WARC files or a crawl's:

    mextract pages.warc.gz -o links --modules found --module 'words=text/html:stay python3 module-python.py' && mcat found

Standard input has a line of JSON about a document, then the document, of as many bytes as
"length" says, then the next line. Each document must be answered at once by one line: a JSON
object whose members are the findings, {} for none. A list is a finding for each of its values.
"""
import json
import re
import sys

for line in sys.stdin.buffer:
    doc = json.loads(line)
    body = sys.stdin.buffer.read(doc["length"])
    try:
        page = body.decode(doc["charset"] or "utf-8", "replace")
    except LookupError:  # an encoding that Python does not know
        page = body.decode("utf-8", "replace")
    headings = re.findall(r"<h[1-3]\b[^>]*>(.*?)</h[1-3]>", page, re.S | re.I)
    plain = [re.sub(r"<[^>]*>", " ", text) for text in [page, *headings]]
    found = {"words": len(plain[0].split()), "heading": [" ".join(h.split()) for h in plain[1:]]}
    print(json.dumps(found), flush=True)
