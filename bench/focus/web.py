#!/usr/bin/env python3
"""A web of documentation that nobody here wrote, with labels: web.py PACKAGES OUT [further]

PACKAGES has a folder for each Debian package, unpacked with dpkg-deb -x. OUT becomes the root of a static site, a folder
for each package, with the links that the pages have; a page of Mallard becomes HTML, a manual page becomes text.
OUT.tsv says of each path which topics it is about, by package, section and file name. index.html, the seed, links to the first page of each package.
The further web is of other packages: nothing was ever tuned on it.
"""
import gzip, html, os, re, shutil, subprocess, sys

# package: (folders, file names that belong to the web, first page)
SITES = {
    "gnome": ("gnome-user-docs/usr/share/help/C/gnome-help", r"\.(page|png)$", "index.html"),
    "gimp": ("gimp-help-en/usr/share/gimp/2.0/help/en", r"\.html$", "index.html"),
    "postgresql": ("postgresql-doc-15/usr/share/doc/postgresql-doc-15/html", r"\.html$", "index.html"),
    "python": ("python3.11-doc/usr/share/doc/python3.11/html", r"(?<!genindex-\w)\.html$", "contents.html"),
    "git": ("git-doc/usr/share/doc/git-doc", r"\.html$", "git.html"),
    "apache": ("apache2-doc/usr/share/doc/apache2-doc/manual/en", r"\.html$", "index.html"),
    "sqlite": ("sqlite3-doc/usr/share/doc/sqlite3", r"\.html$", "docs.html"),
    "node": ("nodejs-doc/usr/share/doc/nodejs/api", r"\.html$", "index.html"),
    "exim": ("exim4-doc-html/usr/share/doc/exim4-doc-html/spec_html", r"(?<!ch\d\d)\.html$", "index.html"),
    "django": ("python-django-doc/usr/share/doc/python-django-doc/html", r"\.html$", "contents.html"),
    "handbook": ("debian-handbook/usr/share/doc/debian-handbook/html/en-US", r"\.html$", "index.html"),
    "reference": ("debian-reference-en/usr/share/debian-reference", r"\.en\.html$", "index.en.html"),
    "anarchism": ("anarchism/usr/share/doc/anarchism/html", r"\.html$", "index.html"),
    "erlang": ("erlang-doc/usr/share/doc/erlang-doc", r"\.html$", "doc/applications.html"),
    "gnucash": ("gnucash-docs/usr/share/doc/gnucash-docs/gnucash-guide-en", r"\.html$", "index.html"),
}
MANUALS = "manpages gpm imwheel xdotool unclutter xserver-xorg-input-mouse xserver-xorg-input-evdev xserver-xorg-input-libinput xserver-xorg-input-synaptics"
FORTUNES = "fortunes/usr/share/games/fortunes"

# topic: paths of its pages
TOPICS = {
    "mouse": r"^gnome/(mouse|a11y-mouse|a11y-dwellclick)|^gnome/.*(pointer|touchpad|-click)|^gimp/.*mouse|^man/(mouse|mousedrv|evdev|libinput|synaptics|syndaemon|synclient|gpm|gpm-mouse-test|gpm-types|gpm.conf|mev|imwheel|unclutter|xdotool)\.",
    "text search": r"^postgresql/(textsearch|functions-textsearch|datatype-textsearch|sql-\w+ts(config|dictionary|parser|template)\b|catalog-pg-ts|pgtrgm|unaccent|dict-)|^sqlite/fts",
    "email": r"^exim/|^python/library/(email|smtpd|smtplib|imaplib|poplib|mailbox|mailcap)|^django/(topics/email|_modules/django/core/mail)|^git/git-(send-email|imap-send|mailinfo|mailsplit|format-patch|am)\.|^handbook/.*(mail|postfix)|^reference/ch06|^gnome/.*email",
    "accounting": r"^gnucash/",
    "anarchism": r"^anarchism/",
    "color profile": r"^gnome/color|^gimp/.*(color-management|color-profile|profile-convert|profile-assign|softproof)",
    "authentication": r"^apache/.*(auth|/access|htpasswd|htdigest|htdbm|dbmmanage)|^postgresql/(auth|client-auth|.*-auth|gssapi|ldap|password|sasl|passwordcheck|libpq-pgpass|view-pg-(hba|ident))|^django/.*auth|^exim/.*auth|^git/.*credential|^gnome/(user-(changepassword|goodpassword|autologin)|session-fingerprint)|^python/library/(getpass|crypt|spwd|netrc)",
    "apache": r"^apache/",
    "git": r"^git/",
    "image": r"^gimp/",
    "python": r"^python/",
    "node": r"^node/",
    "snmp": r"^erlang/lib/snmp",
    "sqlite": r"^sqlite/",
}

# The same of the further web.
FURTHER_SITES = {
    "lily": ("lilypond-doc-html/usr/share/doc/lilypond/html/Documentation", r"^(notation|learning|usage|music-glossary|essay)/[^.]*\.html$", "notation/index.html"),
    "krb": ("krb5-doc/usr/share/doc/krb5-doc", r"^(admin|user|basic|plugindev|appdev/[^/]*)?/?[^/]*\.html$", "index.html"),
    "postfix": ("postfix-doc/usr/share/doc/postfix/html", r"\.html$", "index.html"),
    "bind": ("bind9-doc/usr/share/doc/bind9-doc/arm", r"\.html$", "index.html"),
    "ntp": ("ntpsec-doc/usr/share/doc/ntpsec-doc/html", r"\.html$", "index.html"),
    "maxima": ("maxima-doc/usr/share/doc/maxima-doc/html", r"\.html$", "maxima_toc.html"),
    "cmake": ("cmake-doc/usr/share/doc/cmake-data/html", r"\.html$", "index.html"),
    "cairo": ("libcairo2-doc/usr/share/gtk-doc/html/cairo", r"\.html$", "index.html"),
    "aptitude": ("aptitude-doc-en/usr/share/doc/aptitude/html/en", r"\.html$", "index.html"),
    "policy": ("debian-policy/usr/share/doc/debian-policy/policy.html", r"\.html$", "index.html"),
    "valgrind": ("valgrind/usr/share/doc/valgrind/html", r"\.html$", "index.html"),
    "octave": ("octave-doc/usr/share/doc/octave/octave.html", r"^(index|[A-Z].*)\.html$", "index.html"),
    "en-US": ("libreoffice-help-en-us/usr/share/libreoffice/help/en-US", r"\.html$", "text/scalc/main0000.html"),
}
FURTHER_TOPICS = {
    "kerberos": r"^krb/", "music": r"^lily/", "mail server": r"^postfix/", "clock": r"^ntp/", "symbolic algebra": r"^maxima/", "build system": r"^cmake/",
    "octave": r"^octave/", "spreadsheet": r"^en-US/text/scalc/",
}

def mallard(text):
    """A page of Mallard as HTML: its links become those of a page."""
    text = re.sub(r"<\?.*?\?>|<!--.*?-->|<info>.*?</info>", "", text, flags=re.S)
    text = re.sub(r'<link\s+[^>]*?xref="([^"#]*)(#[^"]*)?"[^>]*/>', lambda m: '<a href="%s.html">%s</a>' % (m[1], m[1]), text)
    text = re.sub(r'<link\s+[^>]*?xref="([^"#]*)(#[^"]*)?"[^>]*>', lambda m: '<a href="%s.html">' % m[1], text)
    text = re.sub(r'<link\s+[^>]*?href="([^"]*)"[^>]*>', r'<a href="\1">', text).replace("</link>", "</a>")
    text = re.sub(r'<media[^>]*?src="([^"]*)"[^>]*>', r'<img src="\1">', text).replace("</media>", "")
    text = re.sub(r"<title>(.*?)</title>", r"<h1>\1</h1>", text, count=1, flags=re.S)
    title = re.search(r"<h1>(.*?)</h1>", text, re.S)
    return "<html><head><title>%s</title></head><body>%s</body></html>" % (re.sub("<.*?>", "", title[1]) if title else "", text)

def main():
    packages, out = sys.argv[1:3]
    sites, topics = (FURTHER_SITES, FURTHER_TOPICS) if sys.argv[3:] == ["further"] else (SITES, TOPICS)
    pages = []
    def put(path, data):
        full = os.path.join(out, path)
        os.makedirs(os.path.dirname(full) or out, exist_ok=True)
        with open(full, "wb") as f:
            f.write(data)
        pages.append(path)
    first = []
    for site, (folder, names, index) in sites.items():
        folder = os.path.join(packages, folder)
        guides = {}  # topics of Mallard link to their guides, and the guide's page shows them
        if site == "gnome":
            for name in os.listdir(folder):
                if name.endswith(".page"):
                    text = open(os.path.join(folder, name)).read()
                    for guide in re.findall(r'<link\s+[^>]*type="guide"[^>]*xref="([^"#]*)', text):
                        guides.setdefault(guide, []).append(name[:-5])
        for at, dirs, files in os.walk(folder):
            dirs.sort()
            for name in sorted(files):
                path = os.path.relpath(os.path.join(at, name), folder)
                if not re.search(names, path):
                    continue
                try:
                    data = open(os.path.join(at, name), "rb").read()
                except FileNotFoundError:
                    continue
                if site == "gnome" and path.endswith(".page"):
                    more = "".join('<li><a href="%s.html">%s</a>' % (g, g.replace("-", " ")) for g in sorted(guides.get(path[:-5], [])))
                    data, path = mallard(data.decode()).replace("</body>", "<ul>%s</ul></body>" % more).encode(), path[:-5] + ".html"
                put(site + "/" + path, data)
        first.append(site + "/" + index)
    manuals = []
    for package in MANUALS.split():
        for at, _, files in os.walk(os.path.join(packages, package, "usr/share/man")):
            if re.search(r"/man\d$", at) and re.search(r"/man/man\d$", at):
                manuals += [os.path.join(at, name) for name in files if not os.path.islink(os.path.join(at, name))]
    names = []
    for file in sorted(manuals, key=os.path.basename):
        data = gzip.open(file).read() if file.endswith(".gz") else open(file, "rb").read()
        text = re.sub(rb'(?m)^\.\\".*\n|^\.(SH|SS|B|I|BR|IR|TP|PP|TH|RB|RI|IP|RS|RE|BI|IB|nf|fi|EX|EE|UR|UE|MT|ME|PD|sp|ad|hy|de|ne|ft|in|br|LP|P)\b ?|^\.\S* ?|\\f.|\\-|\\&|\\s[-+]?\d', b"", data)
        name = os.path.basename(file).removesuffix(".gz") + ".txt"
        names.append(name)
        put("man/" + name, text)
    quotes = []
    folder = os.path.join(packages, FORTUNES)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if "." in name or os.path.isdir(os.path.join(folder, name)):
            continue
        for n, q in enumerate(open(os.path.join(folder, name), errors="replace").read().split("\n%\n")):
            if n % 32 == 0:
                quotes.append("%s-%d.txt" % (name, n))
                put("quotes/" + quotes[-1], q.encode())
    for folder, names in (("man", names), ("quotes", quotes)):
        put(folder + "/index.html", ("<title>Contents</title>" + "".join('<li><a href="%s">%s</a>\n' % (n, n) for n in names)).encode())
        first.append(folder + "/index.html")
    put("index.html", ("<title>Contents</title>" + "".join('<p><a href="%s">%s</a>\n' % (f, f.split("/")[0]) for f in first)).encode())
    with open(out.rstrip("/") + ".tsv", "w") as f:
        for path in pages:
            f.write(path + "\t" + ",".join(t for t, names in topics.items() if re.search(names, path)) + "\n")

main()
