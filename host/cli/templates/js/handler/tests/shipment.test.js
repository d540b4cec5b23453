import assert from "node:assert/strict";
import { test } from "node:test";
import { shipment } from "../src/shipment.js";

test("a paid order is shipped in one parcel", () => {
  assert.deepEqual(shipment({ order: 7 }), { order: 7, parcels: 1 });
});

test("what is no order is refused", () => {
  assert.throws(() => shipment("nonsense"), /no order/);
});
