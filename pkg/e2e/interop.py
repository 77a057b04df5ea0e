"""What interop.sh asks other programs' libraries about our files.

    interop.py warc FILE.warc.gz…     warcio checks them
    interop.py cdxj OURS FILE…        cdxj-indexer indexes them as mcat did
    interop.py documents FILE…        warcio checks files of a crawl by FTP and Gopher
    interop.py derived WET WAT        warcio checks them, and reads what they hold
    interop.py replay INDEX WACZ FILE…  pywb replays pages from the folder and from WACZ, which wacz validates; warcio indexes
    interop.py pages FOLDER INDEX N   pywb replays N pages of an index from the folder of its configuration
    interop.py parquet TABLE FILE…    DuckDB and pyarrow read the rows that mcat prints of the files
    interop.py index TABLE FILE…      outcomes have the columns of Common Crawl's index, and a query for it runs
    interop.py arrow PLAIN ROWS.json  pyarrow and DuckDB read plain Arrow as mcat printed it
"""

import base64
import codecs
import datetime
import hashlib
import io
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request


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
    if "x" in table.column_names:  # columns of the user's own, which mcat prints by their names: there are none
        if any(table["x"].to_pylist()):
            sys.exit(f"{kind}: columns of one's own in {table['x']}")
        table = table.drop_columns(["x"])
    if table.column_names != [name for name in rows[0] if name != "round"]:  # which is where the file lies
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


def tool(name, *args, **options):
    """Runs a command of the virtual environment, which must end well."""
    path = os.path.join(os.path.dirname(sys.executable), name)
    made = subprocess.run([path, *args], capture_output=True, text=True, **options)
    if made.returncode != 0:
        sys.exit(f"{name}: {made.stdout}{made.stderr}")
    return made.stdout


def replay_pages(folder, index, want=20):
    """pywb serves a folder, and the pages of the index come back with the bytes that were crawled."""
    with open(index) as f:
        lines = [line.split(" ", 2) for line in f]
    pages = [(time, json.loads(rest)) for _, time, rest in lines]
    pages = [(time, page) for time, page in pages if page.get("status") == "200" and page.get("mime") == "text/html"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = os.path.join(folder, "config.yaml")
    name = "all"
    if os.path.exists(config):
        with open(config) as f:
            name = f.read().split("collections:\n  ")[1].split(":")[0]
    wayback = os.path.join(os.path.dirname(sys.executable), "wayback")
    with tempfile.TemporaryFile() as log:
        pywb = subprocess.Popen([wayback, "-d", folder, "-b", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
        try:
            for _ in range(300):
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if pywb.poll() is not None:
                    break
                time.sleep(0.1)
            same = 0
            for stamp, page in pages[:want]:
                # pywb decodes bodies for those who do not say that they can
                ask = urllib.request.Request(f"http://127.0.0.1:{port}/{name}/{stamp}id_/{page['url']}", headers={"Accept-Encoding": "gzip, deflate, br"})
                with urllib.request.urlopen(ask, timeout=60) as reply:
                    body = reply.read()
                if base64.b32encode(hashlib.sha1(body).digest()).decode() != page["digest"]:
                    sys.exit(f"{page['url']} of {stamp}: pywb gives another page of {len(body)} bytes")
                same += 1
        except OSError as e:
            log.seek(0)
            sys.exit(f"pywb: {e}: {log.read()[-2000:].decode()}")
        finally:
            pywb.terminate()
            pywb.wait()
    if same < min(want, len(pages)) or same == 0:
        sys.exit(f"pywb replayed {same} of {len(pages)} pages")
    return same


def check_replay(index, wacz, files):
    said = tool("wacz", "validate", "-f", wacz)
    if "Validation succeeded" not in said:
        sys.exit(f"wacz validate: {said}")
    say("wacz", f"validates a file of {os.path.getsize(wacz)} bytes")
    cdxj = os.path.join(index, "index.cdxj")
    say("pywb", f"replays {replay_pages(index, cdxj)} pages from the folder, with the bytes that were crawled")
    with tempfile.TemporaryDirectory() as folder:
        tool("wb-manager", "init", "all", cwd=folder)
        tool("wb-manager", "add", "all", os.path.abspath(wacz), "--unpack-wacz", cwd=folder)
        say("pywb", f"replays {replay_pages(folder, cdxj)} pages from the WACZ file")
    records = len(tool("warcio", "index", *files).splitlines())
    with open(cdxj) as f:
        lines = len(f.readlines())
    if records <= lines:
        sys.exit(f"warcio index finds {records} records, and the index has {lines}")
    say("warcio", f"indexes {records} records of the files where they are")


# The columns of Common Crawl's index as DuckDB shows them. Those of RENAMED are other columns of our rows, the rest is made.
INDEX = dict.fromkeys(
    "url_surtkey url url_host_name url_host_tld url_host_2nd_last_part url_host_3rd_last_part url_host_4th_last_part url_host_5th_last_part url_host_registry_suffix "
    "url_host_registered_domain url_host_private_suffix url_host_private_domain url_host_name_reversed url_protocol url_port url_path url_query fetch_time fetch_status "
    "fetch_redirect content_digest content_mime_type content_mime_detected content_charset content_languages content_truncated warc_filename warc_record_offset "
    "warc_record_length warc_segment crawl subset".split(),
    "VARCHAR",
) | {"url_port": "INTEGER", "fetch_time": "TIMESTAMP WITH TIME ZONE", "fetch_status": "SMALLINT"}
INDEX |= {"warc_record_offset": "BIGINT", "warc_record_length": "BIGINT"}  # INTEGER there
RENAMED = {
    "status": "fetch_status",
    "mime": "content_mime_type",
    "truncated": "content_truncated",
    "payload_sha1": "content_digest",
    "redirect_url": "fetch_redirect",
}


def rows_of(files):
    """The rows that mcat prints of the rounds' files, with their rounds."""
    rows = []
    for path in sorted(files, key=lambda path: int(os.path.basename(os.path.dirname(path))[1:])):  # r2 before r10
        said = subprocess.run([os.environ.get("BIN", "") + "mcat", path], capture_output=True, text=True, check=True).stdout
        name = os.path.basename(os.path.dirname(path))
        rows += [json.loads(line) | {"round": name} for line in said.splitlines()]
    return rows


def check_parquet(table, files):
    """DuckDB and pyarrow have the rows and columns that mcat prints, and the round of each."""
    import duckdb
    import pyarrow.parquet

    rows, made = rows_of(files), set()
    if "outcome" in rows[0]:
        rows = [row for row in rows if (row["role"] == "robots") == (os.path.basename(table) == "robots.parquet")]
        rows = [{RENAMED.get(n, n): value for n, value in row.items() if n != "charset"} for row in rows]  # the index has the detected one
        made = {*INDEX, "title", "language", "redirect_final"} - set(rows[0])
    read = pyarrow.parquet.read_table(table)
    names = read.column_names
    own = ({"x"} & set(names)) - set(rows[0])  # columns of the user's own: there are none
    if len(rows) != read.num_rows or not rows or set(rows[0]) | own | made != set(names):
        sys.exit(f"{table}: {read.num_rows} rows of {names}, want {len(rows)} of {list(rows[0])}")
    types = dict(duckdb.sql(f"select column_name, column_type from (describe select * from '{table}')").fetchall())
    if types["url_key"] != "UBIGINT" or types["discovered"] != "TIMESTAMP WITH TIME ZONE" or types["round"] != "VARCHAR":
        sys.exit(f"{table}: types {types}")
    shown = ", ".join(f"printf('%016x', {n})" if types[n] == "UBIGINT" else f"epoch_us({n})" if types[n].startswith("TIMESTAMP") else n for n in names)
    for row, got in zip(rows, duckdb.sql(f"select {shown} from '{table}'").fetchall(), strict=True):
        for n, value in zip(names, got, strict=True):
            if n in made:
                if n == "content_charset" and value:
                    codecs.lookup(value)
                continue
            want = row.get(n, "")
            if n in RENAMED.values() and want == "":
                want = None
            if types[n].startswith("TIMESTAMP"):
                if (value is None) != (want is None) or want and value // 1000000 != int(datetime.datetime.fromisoformat(want).timestamp()):
                    sys.exit(f"{table}: {n} is {value}, want {want}")
            elif value != want:
                sys.exit(f"{table}: {n} is {value!r}, want {want!r}")
    say("duckdb", f"{len(rows)} rows, {len(names)} columns of {os.path.basename(table)}")


def check_index(table, files):
    """Outcomes have the columns and types of Common Crawl's index, in its order, and a query of the kind that it publishes counts what mcat prints."""
    import duckdb

    have = duckdb.sql(f"select column_name, column_type from (describe select * from '{table}')").fetchall()
    if have[: len(INDEX)] != list(INDEX.items()):
        sys.exit(f"{table}: columns {have}, want {list(INDEX.items())}")
    duckdb.sql("create schema ccindex")
    duckdb.sql(f"create view ccindex.ccindex as select * from '{table}'")
    crawl = os.path.basename(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(files[0])))))
    query = f"""
        SELECT url_host_registered_domain, url_host_tld, content_mime_type,
               COUNT(*) AS n_pages,
               COUNT(DISTINCT url_host_name) AS n_hosts,
               COUNT(content_mime_detected) AS n_detected,
               SUM(warc_record_length) AS bytes
        FROM "ccindex"."ccindex"
        WHERE crawl = '{crawl}' AND subset = 'warc' AND fetch_status = 200
          AND content_truncated IS NULL AND url_protocol = 'http' AND url_port IS NOT NULL
        GROUP BY url_host_registered_domain, url_host_tld, content_mime_type
        ORDER BY n_pages DESC"""
    count = {}
    for row in rows_of(files):
        if row["role"] == "page" and row["outcome"] == "fetched" and row["status"] == 200 and row["warc_filename"] and not row["truncated"]:
            labels = row["host"].split(":")[0].split(".")
            n = count.setdefault((".".join(labels[-2:]), labels[-1], row["mime"] or None), [0, set(), 0])
            n[0], n[2] = n[0] + 1, n[2] + row["warc_record_length"]
            n[1].add(row["host"])
    want = {(*key, n, len(hosts), n, size) for key, (n, hosts, size) in count.items()}
    got = duckdb.sql(query).fetchall()
    if not got or set(got) != want or len(got) != len(want):
        sys.exit(f"{table}: {got}, want {want}")
    say("duckdb", f"a query for Common Crawl's index counts {sum(r[3] for r in got)} pages of {len(got)} types")


if __name__ == "__main__":
    if sys.argv[1] == "warc":
        check_warc(sys.argv[2:])
    elif sys.argv[1] == "cdxj":
        check_cdxj(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == "documents":
        check_documents(sys.argv[2:])
    elif sys.argv[1] == "replay":
        check_replay(sys.argv[2], sys.argv[3], sys.argv[4:])
    elif sys.argv[1] == "pages":
        say("pywb", f"replays {replay_pages(sys.argv[2], sys.argv[3], int(sys.argv[4]))} pages")
    elif sys.argv[1] == "parquet":
        check_parquet(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == "index":
        check_index(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == "derived":
        check_derived(*sys.argv[2:])
    else:
        check_arrow(*sys.argv[2:])
