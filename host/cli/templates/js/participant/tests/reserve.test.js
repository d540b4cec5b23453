import assert from "node:assert/strict";
import { test } from "node:test";
import { read, reserve } from "../src/reserve.js";

test("an order is reserved up to the most", () => {
  assert.deepEqual(reserve({ most: 10 }, { sku: "tea", count: 10 }), { sku: "tea", reserved: 10 });
  assert.throws(() => reserve({ most: 10 }, { sku: "tea", count: 11 }), { tag: "permanent" });
});

test("input that makes no sense is refused for good", () => {
  assert.throws(() => read(new TextEncoder().encode("nonsense")), { tag: "permanent" });
  assert.throws(() => reserve({ most: 10 }, null), { tag: "permanent" });
});
