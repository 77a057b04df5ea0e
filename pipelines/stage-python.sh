#!/bin/sh
# A stage of a crawl in Python: between murlset and mfrontier it decides which new
# URLs come first. Here those with short paths go into front queue 0, those with
# a query into queue 2, and the rest into queue 1.
#
#   murlset new crawl/urls --txn r1 links.arrows.zst | stage-python.sh |
#     mfrontier update crawl/frontier --txn r1 --outcomes marked.arrows.zst --links links.arrows.zst
#
# Standard input and output are url records. "mcat" makes of them a JSON object a
# line, any program reads and writes such lines, and "mcat --from json" makes
# records again. --stage and --like keep the ledger, and the files between the
# steps make this script end when a step dies: stage-awk.sh says more of both.
# Python is the one of the PATH, without any packages; others may read the records
# directly: after "zstd -dc" they are plain Arrow, for pyarrow, DuckDB, polars.
set -eu
: "${BIN:=}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat > "$dir/in"
"${BIN}mcat" "$dir/in" > "$dir/in.json"

python3 - "$dir/in.json" "$dir/out.json" << 'PYTHON'
import json, sys
from urllib.parse import urlsplit

with open(sys.argv[1]) as rows, open(sys.argv[2], "w") as out:
    for line in rows:
        row = json.loads(line)
        url = urlsplit(row["url"])
        row["priority"] = 2 if url.query else 0 if url.path.count("/") < 2 else 1
        row["score"] = 1 / (1 + len(url.path))
        out.write(json.dumps(row) + "\n")
PYTHON

"${BIN}mcat" --from json --stage prioritize --like "$dir/in" "$dir/out.json"
