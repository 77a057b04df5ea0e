#!/usr/bin/env python3
"""A processing module in Python that stays: products and their prices, as pages tell them to search engines.

In crawl.toml, with the name of this file:

    [extract]
    modules = ["products=text/html:stay python3 /path/to/module-products.py"]

It reads schema.org's JSON-LD and microdata (without itemref), and no text that is for people alone. Each finding
has the key "product" and a JSON object: name; price, or low and high of an AggregateOffer or a range; currency.
A product with several offers has a finding for each, one without a price has a finding with its name alone.
Prices are decimal numbers with a point: "1.299,00 €" is 1299.00. What cannot be read as a price is left out.
"""
import collections
import html
import json
import re
import sys
from html.parser import HTMLParser

MOST, TEXT, OPEN = 1000, 300, 32  # findings of a page; characters of a text; values of microdata that are open at a time
PRODUCTS = set("""Product ProductModel ProductGroup ProductCollection IndividualProduct SomeProducts
    Vehicle Car Motorcycle MotorizedBicycle BusOrCoach DietarySupplement Drug""".split())
VOID = set("area base br col embed hr img input link meta param source track wbr".split())
PRICES = {"price": ["price"], "low": ["lowPrice", "minPrice"], "high": ["highPrice", "maxPrice"]}
SIGNS = {"€": "EUR", "£": "GBP", "₹": "INR", "₩": "KRW", "₽": "RUB", "zł": "PLN"}  # of one currency each


def each(value):
    return value if isinstance(value, list) else [] if value is None else [value]


def text(value):
    """The first text of a value, as people read it."""
    for v in each(value):
        v = v.get("@value") if isinstance(v, dict) else v
        if isinstance(v, str) and (v := " ".join(re.sub(r"<[^<>]*>", " ", html.unescape(v[:8 * TEXT])).split())):
            return v[:TEXT]
    return ""


def types(item):
    return {t.rstrip("/").split("/")[-1].split("#")[-1].split(":")[-1] for t in each(item.get("@type")) if isinstance(t, str)}


def amount(value):
    """A price as digits with a point for the decimals, or None."""
    m = re.search(r"(-?)(\d[\d.,'’\s]*)", text(value))
    if not m or m[1]:
        return None
    number = re.sub(r"[\s'’]", "", m[2]).rstrip(".,")
    last = max(number.rfind("."), number.rfind(","))
    if last < 0:
        return number
    sign, decimals = number[last], number[last + 1:]
    both = "." in number and "," in number
    if not both and (number.count(sign) > 1 or sign == "," and len(decimals) == 3 and number[:last] != "0"):
        return re.sub(r"[.,]", "", number)  # of thousands
    return re.sub(r"[.,]", "", number[:last]) + "." + decimals


def currency(offer, price):
    code = text(offer.get("priceCurrency")).upper()
    if re.fullmatch("[A-Z]{3}", code):
        return code
    for v in (code, text(price)):
        if m := re.search(r"\b[A-Z]{3}\b", v):
            return m[0]
        for sign, name in SIGNS.items():
            if sign in v.lower():
                return name
    return ""


class Page(HTMLParser):
    """Collects the scripts of JSON-LD and the items of microdata."""

    def __init__(self):
        super().__init__()
        self.scripts, self.items = [], []
        self.script = None
        self.stack, self.open = [], collections.Counter()  # (tag, item, values to fill), and the tags in it
        self.scopes, self.values = [], []

    def handle_starttag(self, tag, attrs):
        a = {}
        for name, value in attrs:
            a.setdefault(name, value or "")
        if tag == "script":
            self.script = [] if a.get("type", "").split(";")[0].strip().lower() == "application/ld+json" else None
        scope = self.scopes[-1] if self.scopes else None
        item = value = None
        if "itemscope" in a and tag not in VOID:
            item = {"@type": [t for t in a.get("itemtype", "").split() if "schema.org/" in t]}
            self.items.append(item)
        if "itemprop" in a and scope is not None:
            value = item
            if item is None:
                value = next((a[n] for n in ("content", "value", "datetime", "href", "src") if n in a), None)
            if value is None and tag not in VOID and len(self.values) < OPEN:
                value = {"@value": ""}
                self.values.append(value)
            for name in a["itemprop"].split():
                scope.setdefault(name, []).append(value)
        if tag not in VOID:
            self.stack.append((tag, item, value if self.values and value is self.values[-1] else None))
            self.open[tag] += 1
            if item is not None:
                self.scopes.append(item)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        if tag == "script" and self.script is not None:
            self.scripts.append("".join(self.script))
            self.script = None
        while self.open[tag]:
            last, item, value = self.stack.pop()
            self.open[last] -= 1
            if item is not None:
                self.scopes.pop()
            if value is not None:
                self.values.pop()
            if last == tag:
                return

    def handle_data(self, data):
        if self.script is not None:
            self.script.append(data)
            return
        for value in self.values:
            if len(value["@value"]) < TEXT:
                value["@value"] += data[:TEXT]


def loads(script):
    """JSON as pages have it: in comments, with line ends in texts, escaped for HTML, with a comma too many, with more behind it."""
    script = re.sub(r"^\s*(//\s*)?(<!--|<!\[CDATA\[)|^\s*/\*\s*<!\[CDATA\[\s*\*/", "", script).strip()
    decoder = json.JSONDecoder(strict=False, parse_float=str, parse_int=str, parse_constant=str)
    for mend in (str, lambda s: re.sub(r'("(?:[^"\\]|\\[\s\S])*(?:"|\\?\Z))|,(?=\s*[}\]])', r"\1", s), html.unescape):
        script = mend(script)
        try:
            return decoder.raw_decode(script)[0]
        except (ValueError, RecursionError):
            pass
    return None


def nodes(roots):
    """All objects in values, outer ones first, in their order."""
    stack, found = list(reversed(roots)), []
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            found.append(value)
            stack.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            stack.extend(reversed(value))
    return found


def prices(offer, full):
    """The price of an offer: its own, or the first of its specifications."""
    if not isinstance(offer, dict):
        return []
    for spec in [offer, *map(full, each(offer.get("priceSpecification")))]:
        if not isinstance(spec, dict):
            continue
        given = {k: next((spec[n] for n in names if n in spec), None) for k, names in PRICES.items()}
        row = {k: amount(v) for k, v in given.items() if amount(v)}
        if row:
            code = currency(spec, next(v for v in given.values() if v)) or currency(offer, None)
            return [{**row, **({"currency": code} if code else {})}]
    return []


def products(page):
    parser = Page()
    try:
        parser.feed(page)
        parser.close()
    except AssertionError:  # of a declaration that never ends; what stands before it counts
        pass
    found = nodes([loads(s) for s in parser.scripts])
    named = {n["@id"]: n for n in found if isinstance(n.get("@id"), str) and len(n) > 1}
    left = 20 * MOST  # offers to look at, as many products may refer to the same long list

    def full(value):
        nonlocal left
        left -= 1
        if left < 0:
            return None
        refers = isinstance(value, dict) and len(value) == 1 and isinstance(value.get("@id"), str)
        return named.get(value["@id"], value) if refers else value

    found += parser.items
    offered = collections.defaultdict(list)  # what an offer says that it is for
    for n in found:
        if types(n) & {"Offer", "AggregateOffer"}:
            for of in each(n.get("itemOffered")):
                offered[id(full(of))].append(n)
    answers, priced = {}, set()  # in their order, each once
    for n in found:
        name = text(n.get("name"))
        if not name or not types(n) & PRODUCTS:
            continue
        for offer in map(full, each(n.get("offers")) + offered[id(n)]):
            rows = prices(offer, full)
            if not rows and isinstance(offer, dict):  # an AggregateOffer that has no prices of its own
                rows = [row for inner in map(full, each(offer.get("offers"))) for row in prices(inner, full)]
            for row in rows:
                answers[json.dumps({"name": name, **row})] = True
                priced.add(name)
        if len(answers) >= MOST:
            break
        if name not in priced:
            answers[json.dumps({"name": name})] = True
            priced.add(name)
    return [json.loads(a) for a in list(answers)[:MOST]]



for line in sys.stdin.buffer:
    doc = json.loads(line)
    body = sys.stdin.buffer.read(doc["length"])
    try:
        text_of = body.decode(doc["charset"] or "utf-8", "replace")
    except LookupError:  # an encoding that Python does not know
        text_of = body.decode("utf-8", "replace")
    print(json.dumps({"product": products(text_of)}), flush=True)
