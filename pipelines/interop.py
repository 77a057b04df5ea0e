"""What interop.sh asks other programs' libraries about our files.

    interop.py warc FILE.warc.gz…     warcio checks them
    interop.py cdxj OURS FILE…        cdxj-indexer indexes them as mcat did
    interop.py documents FILE…        warcio checks files of a crawl by FTP and Gopher
    interop.py derived WET WAT        warcio checks them, and reads what they hold
    interop.py arrow PLAIN ROWS.json  pyarrow and DuckDB read plain Arrow as mcat printed it
"""

import base64
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile


def say(who, what):
    print(f"{who:9} {what}")


def dechunk(body):
    """The payload of a chunked body, as RFC 9112, section 7.1 has it."""
    out = b""
    while True:
        size, body = body.split(b"\r\n", 1)
        n = int(size.split(b";")[0], 16)
        if n == 0:
            return out
        out, body = out + body[:n], body[n + 2 :]


def check_warc(paths):
    """warcio check passes all records. Chunked replies are the exception: it takes
    the digest of the chunks where WARC 1.1 wants that of the payload, so those are
    checked here."""
    from warcio.archiveiterator import ArchiveIterator

    plain = chunked = encoded = revisits = 0
    for path in paths:
        with open(path, "rb") as f:
            whole = f.read()
        rest = tempfile.NamedTemporaryFile(suffix=".warc.gz")
        records = ArchiveIterator(io.BytesIO(whole), no_record_parse=True)
        for record in records:
            block = record.raw_stream.read()
            offset, length = records.get_record_offset(), records.get_record_length()
            head, _, body = block.partition(b"\r\n\r\n")
            fields = head.lower().split(b"\r\n")
            revisits += record.rec_type == "revisit"
            encoded += b"content-encoding: gzip" in fields
            if record.rec_type != "response" or b"transfer-encoding: chunked" not in fields:
                rest.write(whole[offset : offset + length])
                plain += 1
                continue
            chunked += 1
            want = record.rec_headers.get_header("WARC-Payload-Digest")
            got = "sha1:" + base64.b32encode(hashlib.sha1(dechunk(body)).digest()).decode()
            if got != want:
                sys.exit(f"{path}: record at byte {offset}: payload digest {want}, want {got}")
        rest.flush()
        check = subprocess.run([sys.executable, "-m", "warcio.cli", "check", "-v", rest.name], capture_output=True, text=True)
        if check.returncode != 0 or "failed" in check.stdout:
            lines = check.stdout.splitlines()
            bad = [f"{lines[i - 1].strip()}: {line.strip()}" for i, line in enumerate(lines) if "failed" in line]
            sys.exit(f"{path}: warcio check: " + "\n".join(bad or [check.stderr]))
    if not (plain and chunked and encoded and revisits):
        sys.exit(f"{plain} plain, {chunked} chunked, {encoded} gzip replies, {revisits} revisits: one kind is missing")
    say("warcio", f"check passes {plain} records; {chunked} chunked replies have the payload digests of WARC 1.1; {encoded} were gzip, {revisits} are revisits")


# URLs that archives have, more of their kinds than a small crawl does.
cdx_urls = """http://www.Example.com/A/B/?b=2&a=1 https://example.com:443/x http://www2.example.com:8080// http://127.0.0.1/
http://[::1]:81/x ftp://ftp.example.com/pub/ http://example.com/%7Efoo/%E9?q=%2541&%26 http://example.com/a%2Fb?
http://example.com/?x=1&sid=9682993c8daa2c5497996114facdc805 http://example.com/(S(4hqa0555fwsecu455xqckv45))/x.aspx"""


def check_cdxj(ours, paths):
    """cdxj-indexer has the same keys, times and places for each reply, and the
    package surt, from which it has its keys, the same for other URLs."""
    import surt

    def index(lines):
        for line in lines:
            key, time, rest = line.split(" ", 2)
            found = json.loads(rest)
            if not found["url"].startswith("dns:"):  # names are no replies to mcat
                yield key, time, found["url"], found.get("status"), found["offset"], found["length"], found["filename"]

    made = subprocess.run([os.path.join(os.path.dirname(sys.executable), "cdxj-indexer"), *paths], capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"cdxj-indexer: {made.stderr}")
    with open(ours) as f:
        got, want = sorted(index(f), key=str), sorted(index(made.stdout.splitlines()), key=str)
    if got != want or len(got) == 0:
        sys.exit(f"cdxj: {len(got)} lines, cdxj-indexer has {len(want)}: {[x for x in zip(got, want) if x[0] != x[1]][:2]}")
    urls = cdx_urls.split()
    asked = subprocess.run([os.environ.get("BIN", "") + "murlset", "key", "--form", "cdx"], input="\n".join(urls), capture_output=True, text=True, check=True)
    for url, line in zip(urls, asked.stdout.splitlines(), strict=True):
        if line.split("\t")[1] != surt.surt(url):
            sys.exit(f"{url}: CDX key {line}, surt has {surt.surt(url)}")
    say("cdxj", f"{len(got)} lines of mcat's index are cdxj-indexer's")


def check_documents(paths):
    """warcio check passes all records of files that hold documents of schemes without
    HTTP, and finds a digest in each document."""
    from warcio.archiveiterator import ArchiveIterator

    schemes = {}
    for path in paths:
        check = subprocess.run([sys.executable, "-m", "warcio.cli", "check", "-v", path], capture_output=True, text=True)
        if check.returncode != 0 or "failed" in check.stdout:
            sys.exit(f"{path}: warcio check: {check.stdout[-1000:]}{check.stderr}")
        with open(path, "rb") as f:
            for record in ArchiveIterator(f, no_record_parse=True):
                scheme = record.rec_headers.get_header("WARC-Target-URI", "").split(":")[0]
                if record.rec_type != "resource" or scheme == "dns":
                    continue
                want = record.rec_headers.get_header("WARC-Payload-Digest")
                got = "sha1:" + base64.b32encode(hashlib.sha1(record.raw_stream.read()).digest()).decode()
                if got != want:
                    sys.exit(f"{path}: {record.rec_headers.get_header('WARC-Target-URI')}: payload digest {want}, want {got}")
                schemes[scheme] = schemes.get(scheme, 0) + 1
    if not {"ftp", "gopher"} <= set(schemes):
        sys.exit(f"documents of {schemes}: ftp or gopher is missing")
    say("warcio", "check passes documents by " + ", ".join(f"{name} ({n})" for name, n in sorted(schemes.items())))


def as_text(value, kind):
    """A value of pyarrow as mcat prints it."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        text = value.strftime("%Y-%m-%dT%H:%M:%S")
        if value.microsecond:
            text += f".{value.microsecond:06}".rstrip("0")
        return text + "Z"
    if pa.types.is_float32(kind):
        return struct.unpack("f", struct.pack("f", value))[0]
    return value


def check_arrow(plain, rows_path):
    import duckdb
    import pyarrow as pa

    with open(plain, "rb") as f:
        reader = pa.ipc.open_stream(f)
        kind = reader.schema.metadata[b"mercator.kind"].decode()
        table = reader.read_all()
    table.validate(full=True)
    with open(rows_path) as f:
        rows = [json.loads(line) for line in f]
    if table.num_rows != len(rows) or not rows:
        sys.exit(f"{kind}: pyarrow has {table.num_rows} rows, mcat {len(rows)}")
    if table.column_names != list(rows[0]):
        sys.exit(f"{kind}: pyarrow has columns {table.column_names}, mcat {list(rows[0])}")
    for field in table.schema:
        for i, value in enumerate(table[field.name].to_pylist()):
            got, want = as_text(value, field.type), rows[i][field.name]
            if pa.types.is_uint64(field.type):  # a fingerprint: mcat prints 16 hex digits
                got = f"{got:016x}"
            elif pa.types.is_float32(field.type):
                want = as_text(want, field.type)
            if got != want:
                sys.exit(f"{kind}: row {i}, column {field.name}: pyarrow has {got!r}, mcat {want!r}")

    database = duckdb.connect()
    database.register("records", table)
    [(count,)] = database.execute("select count(*) from records").fetchall()
    group = {"url": "host", "fetch": "outcome", "link": "link_kind", "module": "module"}[kind]
    got = dict(database.execute(f"select {group}, count(*) from records group by {group}").fetchall())
    want = {}
    for row in rows:
        want[row[group]] = want.get(row[group], 0) + 1
    if count != len(rows) or got != want:
        sys.exit(f"{kind}: DuckDB counts {count} rows and {got}, mcat {len(rows)} and {want}")
    say("pyarrow", f"{kind}: {count} rows of {table.num_columns} columns are what mcat prints; DuckDB counts {len(want)} of {group}")


def check_derived(wet, wat):
    """warcio check passes all records; texts are UTF-8, and the JSON has the names
    that readers of Common Crawl's files go by."""
    from warcio.archiveiterator import ArchiveIterator

    for path in (wet, wat):
        check = subprocess.run([sys.executable, "-m", "warcio.cli", "check", "-v", path], capture_output=True, text=True)
        if check.returncode != 0 or "failed" in check.stdout:
            sys.exit(f"{path}: warcio check: {check.stdout}{check.stderr}")
    texts = links = 0
    with open(wet, "rb") as f:
        for record in ArchiveIterator(f):
            if record.rec_type == "conversion":
                assert record.rec_headers.get_header("WARC-Refers-To").startswith("<urn:uuid:")
                assert record.rec_headers.get_header("Content-Type") == "text/plain"
                record.content_stream().read().decode("utf-8")
                texts += 1
    with open(wat, "rb") as f:
        for record in ArchiveIterator(f):
            if record.rec_type != "metadata":
                continue
            envelope = json.loads(record.content_stream().read())["Envelope"]
            payload = envelope["Payload-Metadata"]
            if "HTTP-Response-Metadata" in payload:
                reply = payload["HTTP-Response-Metadata"]
                assert envelope["WARC-Header-Metadata"]["WARC-Type"] == "response"
                assert int(reply["Response-Message"]["Status"]) and "Headers" in reply
                links += len(reply.get("HTML-Metadata", {}).get("Links", []))
    if not (texts and links):
        sys.exit(f"{texts} texts, {links} links: one is missing")
    say("warcio", f"check passes WET and WAT files: {texts} texts, {links} links")


if __name__ == "__main__":
    if sys.argv[1] == "warc":
        check_warc(sys.argv[2:])
    elif sys.argv[1] == "cdxj":
        check_cdxj(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == "documents":
        check_documents(sys.argv[2:])
    elif sys.argv[1] == "derived":
        check_derived(*sys.argv[2:])
    else:
        check_arrow(*sys.argv[2:])
