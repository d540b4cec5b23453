// The ledger's language (see ../transport-from-scratch). Pure, so that `npm test` runs it in node.

const LINE_FEED = 10;

// One entry for a book, as text before and after the payload's bytes.
export function put(id, book, payload) {
  const head = bytesOf(`PUT ${word(id)} ${word(book)} ${payload.length}\n`);
  const request = new Uint8Array(head.length + payload.length + 1);
  request.set(head);
  request.set(payload, head.length);
  request[request.length - 1] = LINE_FEED;
  return request;
}

// A text as one word: what would end it is written as %XX.
export function word(text) {
  return text.replace(/[\u0000-\u0020\u007f%]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);
}

// The lines that are whole, and the bytes after them.
export function lines(bytes) {
  const whole = [];
  let start = 0;
  for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
    whole.push(textOf(bytes.subarray(start, end)).trimEnd());
    start = end + 1;
  }
  return { whole, rest: bytes.slice(start) };
}

// What an answer means for the message; undefined if it is none.
export function outcome(line) {
  const [verb, ...rest] = line.split(" ");
  const why = rest.join(" ");
  const fault = { code: `LEDGER.${verb}`, reason: why, maybeDelivered: false, attributes: [] };
  switch (verb) {
    case "OK":
    case "KNOWN":
      return { tag: "ack", val: { brokerRef: why, duplicate: verb === "KNOWN", attributes: [] } };
    case "BUSY":
      return { tag: "retryable", val: { ...fault, reason: rest.slice(1).join(" "), after: Number(rest[0]) || 0 } };
    case "NO":
      return { tag: "permanent", val: fault };
    case "CLOSED":
      // An empty scope is the message's destination: only this book is held, and no attempt counts.
      return { tag: "blocked", val: { scope: "", fault } };
    default:
      return undefined;
  }
}

// UTF-8 by hand: QuickJS has neither TextEncoder nor TextDecoder.
export function bytesOf(text) {
  return Uint8Array.from(unescape(encodeURIComponent(text)), (letter) => letter.charCodeAt(0));
}

export function textOf(bytes) {
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  try {
    return decodeURIComponent(escape(letters));
  } catch {
    // What isn't UTF-8 is read byte by byte: it ends up in a message for the operator.
    return letters;
  }
}

export function joined(pieces) {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
