import assert from "node:assert/strict";
import { test } from "node:test";
import { delivery, fresh, read, takenOff } from "../src/queue.js";

const answered = (status, body = "") => ({ tag: "ok", val: { status, body: new TextEncoder().encode(body) } });

test("a list is read and nonsense refused", () => {
  const [first] = read(answered(200, '[{"id":"1","topic":"t","payload":{"a":1}}]')).map(delivery);
  assert.deepEqual([first.id, new TextDecoder().decode(first.payload)], ["1", '{"a":1}']);
  assert.throws(() => read(answered(200, "nonsense")), { kind: "unavailable" });
  assert.throws(() => read(answered(503)), { kind: "unavailable" });
});

test("what is out isn't brought again", () => {
  const entries = [{ id: "1" }, { id: "2" }, { id: "3" }];
  assert.deepEqual(fresh(entries, new Set(["1"]), 1), [{ id: "2" }]);
  assert.deepEqual(fresh(entries, new Set(), 0), []);
});

test("what is gone is lost and no failure", () => {
  assert.equal(takenOff(answered(204)).tag, "done");
  assert.equal(takenOff(answered(404)).tag, "lost");
  assert.equal(takenOff({ tag: "err", val: { error: { tag: "timeout" } } }).tag, "failed");
});
