(max => {
  const parts = [document.documentElement ? document.documentElement.outerHTML : ""];
  const walk = root => {
    for (const e of root.querySelectorAll("*")) {
      if (e.shadowRoot) { parts.push(e.shadowRoot.innerHTML); walk(e.shadowRoot); }
      if (e.localName === "iframe" && (!e.src || e.src.startsWith("about:"))) {
        const d = e.contentDocument;
        if (d && d.documentElement) { parts.push(d.documentElement.outerHTML); walk(d); }
      }
    }
  };
  walk(document);
  return {html: parts.join("\n").slice(0, max), text: (document.body ? document.body.innerText : "").slice(0, max)};
})
