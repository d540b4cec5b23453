import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesOf, joined, lines, outcome, put, textOf, word } from "../src/protocol.js";

test("an entry is a line and its bytes", () => {
  assert.equal(textOf(put("m-1", "orders", bytesOf("{}"))), "PUT m-1 orders 2\n{}\n");
  assert.equal(word("a b%\n"), "a%20b%25%0A");
});

test("lines are read when they are whole", () => {
  const { whole, rest } = lines(bytesOf("OK 1\r\nKNOWN 2\nBU"));
  assert.deepEqual(whole, ["OK 1", "KNOWN 2"]);
  assert.equal(textOf(rest), "BU");
  assert.deepEqual(lines(joined([rest, bytesOf("SY 5 x\n")])).whole, ["BUSY 5 x"]);
});

test("texts are UTF-8", () => {
  assert.deepEqual([...bytesOf("é€😀")], [...new TextEncoder().encode("é€😀")]);
  assert.equal(textOf(new TextEncoder().encode("é€😀")), "é€😀");
  assert.equal(textOf(Uint8Array.of(0xff, 0x41)), "\u00ffA");
});

test("each answer has its outcome", () => {
  assert.deepEqual(outcome("KNOWN 7"), { tag: "ack", val: { brokerRef: "7", duplicate: true, attributes: [] } });
  const busy = outcome("BUSY 500 come back");
  assert.deepEqual([busy.tag, busy.val.after, busy.val.reason], ["retryable", 500, "come back"]);
  assert.equal(outcome("NO never").tag, "permanent");
  assert.equal(outcome("CLOSED the book is closed").tag, "blocked");
  assert.equal(outcome("HTTP/1.1 400 Bad Request"), undefined);
});
