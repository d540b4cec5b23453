import assert from "node:assert/strict";
import { test } from "node:test";
import { checked, decide } from "../src/steps.js";

test("delays grow up to the cap", () => {
  const config = checked({ step_ms: 100, cap_ms: 250 });
  const delays = [1, 2, 3, 4294967295].map((number) => decide(config, { kind: "retryable", number }).val);
  assert.deepEqual(delays, [100, 200, 250, 250]);
});

test("what will never work is dead", () => {
  assert.deepEqual(decide(checked({}), { kind: "permanent", reason: "gone" }), { tag: "dead", val: "gone" });
});

test("a cap below the step is refused", () => {
  assert.throws(() => checked({ step_ms: 2, cap_ms: 1 }), /raise it/);
});
