// @ts-check
// The step itself. Pure, so that `npm test` runs it in node. What is thrown is the error of the contract.
import { decode } from "./utf8.js";

// The input as JSON. Another try would read the same, so what can't be read is refused for good.
export function read(bytes) {
  try {
    return JSON.parse(decode(bytes));
  } catch (error) {
    throw permanent("MY_PLUGIN.INPUT", `the input isn't JSON: ${error}`);
  }
}

export function reserve({ most }, order) {
  const { sku, count } = order ?? {};
  if (typeof sku !== "string" || !Number.isInteger(count)) {
    throw permanent("MY_PLUGIN.INPUT", "an order has a sku and a count");
  }
  if (count > most) {
    throw permanent("MY_PLUGIN.TOO_MANY", `an order has at most ${most} pieces`);
  }
  return { sku, reserved: count };
}

function permanent(code, reason) {
  return { tag: "permanent", val: { code, reason, maybeDelivered: false, attributes: [] } };
}
