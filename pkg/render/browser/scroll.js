(() => {
  const e = document.scrollingElement || document.documentElement;
  scrollTo(0, e.scrollHeight);
  return e.scrollHeight;
})()
