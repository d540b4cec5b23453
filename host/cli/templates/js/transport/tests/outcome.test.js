import assert from "node:assert/strict";
import { test } from "node:test";
import { outcomeOf } from "../src/outcome.js";

const answer = (status, headers = []) => outcomeOf({ tag: "ok", val: { status, headers } });

test("each status has its outcome", () => {
  assert.equal(answer(204).tag, "ack");
  assert.equal(answer(401).tag, "blocked");
  assert.equal(answer(422).tag, "permanent");
  const retried = answer(503, [["retry-after", "7"]]);
  assert.equal(retried.tag, "retryable");
  assert.deepEqual([retried.val.code, retried.val.after], ["MY_PLUGIN.503", 7000]);
});

test("no answer is retried and may have arrived", () => {
  const lost = outcomeOf({ tag: "err", val: { error: { tag: "timeout" }, maybeDelivered: true } });
  assert.equal(lost.tag, "retryable");
  assert.equal(lost.val.maybeDelivered, true);
});
