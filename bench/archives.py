"""What our commands read in archives and PDF files, beside warcio, FastWARC, cdxj-indexer and pypdf. See archives.sh."""
import collections, contextlib, io, json, os, re, subprocess, sys, tempfile

from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter
import cdxj_indexer.main
import pypdf

ARC = "warcio takes ARC lines by position: version 2, and blanks in them, are misread"
BIN = os.environ["BIN"]
work = tempfile.mkdtemp()
kinds = collections.Counter()
examples = collections.defaultdict(list)
unexplained = []


def run(*args, stdin=None):
    p = subprocess.run([BIN + args[0], *args[1:]], input=stdin, capture_output=True)
    return p.returncode, p.stdout, p.stderr.decode("utf-8", "replace")


def differs(file, kind, what):
    kinds[kind] += 1
    examples[kind].append("%s: %s" % (file, what))
    if kind.startswith("unexplained"):
        unexplained.append("%s: %s: %s" % (file, kind, what))


def records(file):
    """(type, target) of each record, and why the reader stopped early."""
    found = []
    try:
        with open(file, "rb") as f:
            for r in ArchiveIterator(f, arc2warc=False):
                r.content_stream().read()
                found.append(r.rec_type)
    except Exception as e:
        return found, " ".join(str(e).split())[:60] or type(e).__name__
    return found, ""


def fast(file):
    n = 0
    try:
        with open(file, "rb") as f:
            for _ in FastIterator(f, parse_http=False):
                n += 1
    except Exception as e:
        return n, " ".join(str(e).split())[:60] or type(e).__name__
    return n, ""


def index(text):
    """Lines of an index by URL and offset."""
    lines = {}
    for line in text.splitlines():
        _, stamp, rest = line.split(" ", 2)
        c = json.loads(rest)
        c["key"], c["stamp"] = line.split(" ", 1)[0], stamp
        lines[c["url"].strip("<>").replace(" ", "%20"), c["offset"]] = c
    return lines


def archive(file):
    name = os.path.basename(file)
    code, out, told = run("mcat", file)
    if code not in (0, 3):
        return differs(name, "unexplained: mcat fails", told)
    ours = [json.loads(line) for line in out.splitlines()]
    _, _, listed = run("mcat", "--check", file)  # each oddity and all damage, with its place
    skipped = places(listed, "; skipped")
    strange = places(listed)
    arc = bool(ours) and any(r["type"] == "warcinfo" and r.get("target_uri", "").startswith("filedesc:") for r in ours)
    odd = "read all the same" in told
    theirs, why = records(file)
    n, fault = fast(file)
    print("%s: %d records, %d damaged, exit %d; warcio %d %s; FastWARC %d %s" % (name, len(ours), len(skipped), code, len(theirs), why, n, fault))
    for reader, count, stopped in ("warcio", len(theirs), why), ("FastWARC", n, fault):
        if count == len(ours):
            continue
        if stopped and count < len(ours):
            kind = reader + " stops, ours reads on"
        elif reader == "FastWARC" and arc:
            kind = "FastWARC reads no ARC files"
        elif count > len(ours) and "an empty gzip member" in told:
            kind = reader + " takes an empty member for a record"
        elif len(ours) < count <= len(ours) + len(skipped):
            kind = "damaged records, which ours leave out, are records for " + reader
        elif count < len(ours) and (odd or skipped):
            kind = reader + " loses records behind odd or damaged ones"
        elif not ours and "want " in told:
            kind = "ours name a file that is no archive by itself, " + reader + " decompresses it"
        else:
            kind = "unexplained: records of " + reader
        differs(name, kind, "%d, ours %d; at bytes %s" % (count, len(ours), " ".join(sorted(strange, key=int)) or "-"))
    cdxj(file, name, skipped, strange, told, arc, {str(r["offset"]): r["type"] for r in ours})


def places(listed, end=""):
    """The bytes of a file at which mcat --check tells of something."""
    return set(m.group(1) for line in listed.splitlines() if line.endswith(end) for m in [re.search(r": record \d+ at byte (\d+): ", line)] if m)


def cdxj(file, name, skipped, strange, told, arc, types):
    path, stopped = os.path.join(work, "index"), False
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cdxj_indexer.main.main(["-o", path, file])
    except (Exception, SystemExit):
        stopped = True
    _, out, _ = run("mcat", "--format", "cdxj", file)
    with open(path) as f:
        ours, theirs = index(out.decode()), index(f.read())
    stopped = stopped or not theirs
    for at, c in theirs.items():
        o = ours.get(at)
        if o is None:
            kind = "unexplained: a line of cdxj-indexer"
            if arc and not any(u == at[0] for u, _ in ours) and any(n == at[1] for _, n in ours) or arc and "read all the same" not in told and "several" not in told and types.get(at[1]):
                kind = ARC
            elif types.get(at[1]) in ("metadata", "request", "warcinfo") or c.get("mime") in ("application/warc-fields", "text/anvl") or at[0].startswith(("metadata:", "dns:")):
                kind = "cdxj-indexer has metadata and names of hosts"
            elif at[1] in skipped:
                kind = "damaged records are in cdxj-indexer's index alone"
            elif any(u == at[0] for u, _ in ours):
                kind = "the offset of a record"
                if "several records" not in told and "read all the same" not in told:
                    kind = "unexplained: the offset of a record"
            elif c.get("method") or "__wb_method" in c["key"]:
                kind = "cdxj-indexer joins requests to the keys of POST"
            differs(name, kind, str(at))
            continue
        if c["key"] != o["key"] and "__wb_" not in c["key"]:
            differs(name, "unexplained: a key", "%s, ours %s" % (c["key"], o["key"]))
        if c.get("status", "-") != o.get("status", "-"):
            kind = "unexplained: a status"
            if not c.get("status") or not c["status"].isdigit():
                kind = "a status that only ours read"
            elif o.get("mime") == "warc/revisit" and not o.get("status"):
                kind = "a revisit without a head"
            differs(name, kind, "%s: %s, ours %s" % (at[0], c.get("status"), o.get("status")))
        a, b = (x.get("digest", "").rpartition(":")[2].upper() for x in (c, o))
        if a != b:
            kind = "unexplained: a digest"
            if not b:
                kind = "a digest that only cdxj-indexer makes: of documents without HTTP"
            elif "digest" not in declared(file, at[1]):
                kind = "a payload digest that none declared: ours without chunks, as ISO 28500 has it"
            differs(name, kind, "%s: %s, ours %s" % (at[0], a, b))
    missing = [at for at in ours if at not in theirs]
    for at in missing:
        if stopped:
            kind = "cdxj-indexer stops, ours reads on"
        elif arc:
            kind = ARC
        elif any(u == at[0] for u, _ in theirs) or at[1] in strange:
            kind = "an odd record that only ours index"
        else:
            kind = "unexplained: a line of ours alone"
            if before := [int(n) for n in strange if int(n) < int(at[1])]:
                kind = "a record that only ours reach, behind an odd or damaged one"
                at = (*at, "behind byte %d" % max(before))
        differs(name, kind, str(at))


def declared(file, offset):
    """The header of the record at an offset, in lower case."""
    try:
        with open(file, "rb") as f:
            f.seek(int(offset))
            for r in ArchiveIterator(f):
                return r.rec_headers.to_str().lower().replace("block-digest", "")
    except Exception:
        pass
    return ""


WORD = re.compile(r"\w{3,}")


def pdf(file):
    """Words and links of one PDF file, in a WARC file that warcio writes of it."""
    name = os.path.basename(file)
    with open(file, "rb") as f:
        body = f.read()
    path = os.path.join(work, "pdf.warc.gz")
    with open(path, "wb") as f:
        w = WARCWriter(f, gzip=True)
        head = StatusAndHeaders("200 OK", [("Content-Type", "application/pdf"), ("Content-Length", str(len(body)))], protocol="HTTP/1.1")
        w.write_record(w.create_warc_record("http://e.example/x.pdf", "response", payload=io.BytesIO(body), http_headers=head))
    try:
        reader = pypdf.PdfReader(io.BytesIO(body))
        text = "\n".join(p.extract_text() or "" for p in reader.pages)
        links = set()
        for p in reader.pages:
            for a in p.get("/Annots") or []:
                uri = (a.get_object().get("/A") or {}).get("/URI")
                if uri and str(uri).startswith("http"):
                    links.add(str(uri))
        fails = ""
    except Exception as e:
        text, links, fails = "", set(), type(e).__name__
    run("mcat", "--wet", "-o", path + ".wet", path)
    ours = ""
    with open(path + ".wet", "rb") as f:
        for r in ArchiveIterator(f):
            if r.rec_type == "conversion":
                ours = r.content_stream().read().decode("utf-8", "replace")
    _, found, _ = run("mextract", path)
    _, found, _ = run("mcat", "--format", "text", stdin=found)
    mine = len(set(found.decode().split()))
    a, b = set(w.lower() for w in WORD.findall(text)), set(w.lower() for w in WORD.findall(ours))
    print("%s: %d words, %d links; pypdf %d words, %d links %s" % (name, len(b), mine, len(a), len(links), fails))
    if fails:
        return differs(name, "pypdf fails", fails) if b else None
    if len(a - b) > len(a) // 10:
        differs(name, "words of pypdf that ours lack" if b else "unexplained: a PDF file whose text only pypdf reads", "%d of %d" % (len(a - b), len(a)))
    if mine < len(links):
        differs(name, "unexplained: links of pypdf that ours lack", "%d of %d" % (mine, len(links)))


for file in sys.argv[1:]:
    with open(file, "rb") as f:
        front = f.read(1024)
    (pdf if b"%PDF-" in front else archive)(file)
print("\ndifferences, by kind:")
for kind, n in sorted(kinds.items()):
    print("%6d  %s" % (n, kind))
    for example in examples[kind][:3]:
        print("            " + example)
for line in unexplained[:50]:
    print(line, file=sys.stderr)
sys.exit(1 if unexplained else 0)
