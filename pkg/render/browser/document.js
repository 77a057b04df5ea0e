(max => {
  const html = [], text = [];
  const shown = e => e.checkVisibility() || getComputedStyle(e).display === "contents";
  const take = (d, seen) => {
    if (d.documentElement) html.push(d.documentElement.outerHTML);
    if (d.body && seen) text.push(d.body.innerText);
    walk(d);
  };
  const walk = root => {
    for (const e of root.querySelectorAll("*")) {
      if (e.shadowRoot) {
        html.push(e.shadowRoot.innerHTML);
        for (const n of e.shadowRoot.childNodes) {
          if (n.nodeType === Node.ELEMENT_NODE && shown(n)) text.push(n.innerText ?? ""); // "" of SVG
          if (n.nodeType === Node.TEXT_NODE && shown(e)) text.push(n.data);
        }
        walk(e.shadowRoot);
      }
      if (e.localName === "iframe" && (!e.src || e.src.startsWith("about:")) && e.contentDocument) take(e.contentDocument, shown(e));
    }
  };
  take(document, true);
  return {html: html.join("\n").slice(0, max), text: text.filter(t => t.trim()).join("\n").slice(0, max)};
})
