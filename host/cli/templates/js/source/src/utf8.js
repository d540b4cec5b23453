// @ts-check
// Text as bytes and back: QuickJS has no TextEncoder.

export function encode(text) {
  // Percent-encoding is UTF-8, one escape a byte.
  return Uint8Array.from(unescape(encodeURIComponent(text)), (letter) => letter.charCodeAt(0));
}

// Throws on bytes that are no UTF-8.
export function decode(bytes) {
  let letters = "";
  for (const byte of bytes) {
    letters += String.fromCharCode(byte);
  }
  return decodeURIComponent(escape(letters));
}
