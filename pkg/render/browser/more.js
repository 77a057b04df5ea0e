(() => {
  const says = /^\W*(load|show|see|view|read)? ?(more|all)( \p{L}+){0,2}\W*$|^\W*(mehr( \p{L}+)?( laden| anzeigen)?|weitere .{0,20}laden|(voir|afficher|charger) (plus|la suite)|(ver|cargar|mostrar) m[áa]s|(mostra|carica) altr[oi]|(ver|carregar|mostrar) mais|もっと(見る|読み込む)|(加载|查看)更多)\W*$/iu;
  for (const e of document.querySelectorAll("button, [role=button], input[type=button], a:not([href]), a[href='#'], a[href^='javascript:']")) {
    if (!e.disabled && e.checkVisibility() && says.test((e.innerText || e.value || "").trim())) {
      const n = document.querySelectorAll("*").length;
      e.click();
      return n;
    }
  }
  return -1;
})()
