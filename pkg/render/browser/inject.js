// Runs before a page's own scripts, in each of its frames: random numbers are those of the seed, and what could only reach for a network,
// or for another window, is not there.
(seed => {
  const next = () => { // mulberry32
    seed = seed + 0x6D2B79F5 | 0;
    let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return (t ^ t >>> 14) >>> 0;
  };
  Math.random = () => next() / 4294967296;
  if (self.crypto) {
    Crypto.prototype.getRandomValues = a => { const b = new Uint8Array(a.buffer, a.byteOffset, a.byteLength); for (let i = 0; i < b.length; i++) b[i] = next(); return a; };
    Crypto.prototype.randomUUID = () => "10000000-1000-4000-8000-100000000000".replace(/[018]/g, c => (c ^ next() & 15 >> c / 4).toString(16));
  }
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "SharedWorker"]) delete self[name];
  if (self.Navigator) for (const name of ["serviceWorker", "sendBeacon", "bluetooth", "usb", "serial", "hid"]) delete Navigator.prototype[name];
  self.open = () => null;
  self.print = () => {};
})
