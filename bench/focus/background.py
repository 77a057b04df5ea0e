#!/usr/bin/env python3
"""On how many of a thousand documents a stem stands, in text that is about nothing in particular: background.py > pkg/focus/classify/background.txt

Three sources count alike: WordNet's glosses, 60 at random a document; manual pages, of each package of this machine at most 20; descriptions of
Debian's packages, 25 at random a document. Stems of 2 % or more are printed. Needs snowballstemmer (PyPI), wordnet-base, man-db's pages, apt.
"""
import collections, glob, gzip, os, random, re, subprocess, sys
import snowballstemmer

stemmer = snowballstemmer.stemmer("english")
random.seed(1999)

def stems(text):
    return {s for s in stemmer.stemWords(re.findall(r"[a-z]{2,40}", text.lower())) if len(s) > 1}

def glued(texts, n, many):
    random.shuffle(texts)
    return [" ".join(texts[i:i + n]) for i in range(0, min(len(texts), n * many), n)]

def glosses():
    found = []
    for kind in ("noun", "verb", "adj", "adv"):
        for line in open("/usr/share/wordnet/data." + kind, errors="replace"):
            if not line.startswith("  ") and " | " in line:
                found.append(line.split(" | ", 1)[1])
    return glued(found, 60, 1500)

def manuals():
    names = collections.defaultdict(list)
    for file in sorted(glob.glob("/usr/share/man/man[1578]/*.gz")):
        names[re.split(r"[-_.:0-9]", os.path.basename(file))[0][:4]].append(file)
    found = []
    for files in names.values():
        random.shuffle(files)
        for file in files[:20]:
            try:
                text = gzip.open(file, "rt", errors="replace").read()
            except OSError:
                continue
            text = re.sub(r'(?m)^\.\\".*\n|^[.\']\s*[A-Z]{1,2} ?|^[.\'].*\n|\\f.|\\\S\S?', " ", text)
            if len(text) > 1500:
                found.append(text[:20000])
    random.shuffle(found)
    return found[:1500]

def packages():
    text = subprocess.run(["apt-cache", "show", "--no-all-versions", "."], capture_output=True, text=True).stdout or subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True).stdout
    return glued(re.findall(r"(?m)^Description(?:-en)?: (.*(?:\n .*)*)", text), 25, 1500)

count = collections.Counter()
for source in (glosses(), manuals(), packages()):
    print(len(source), "documents", file=sys.stderr)
    on = collections.Counter()
    for document in source:
        on.update(stems(document))
    for stem, n in on.items():
        count[stem] += n / len(source) / 3
for stem, share in sorted(count.items()):
    if share >= 0.02:
        print(stem, round(1000 * share))
