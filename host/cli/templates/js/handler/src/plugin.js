// @ts-check
// A handler: a paid order leaves a shipment. Change `shipment.js`.
import "./console.js";
import { shipment } from "./shipment.js";
import { decode, encode } from "./utf8.js";

/** @type {import("waybill:inbound/handler-api@0.1.0").HandlerApi} */
export const handlerApi = {
  async open(call, args) {
    return { maxConcurrentCalls: 1, features: [], attributes: [] };
  },

  // One verdict a message, in order.
  async handle(call, batch) {
    return batch.map(handleOne);
  },

  async close(call) {},
};

/** @import { Inbound, Verdict } from "waybill:inbound/inbound-types@0.1.0" */
/** @type {(message: Inbound) => Verdict} */
function handleOne(message) {
  let shipped;
  try {
    shipped = shipment(JSON.parse(decode(message.payload)));
  } catch (error) {
    // Another try would read the same.
    return { tag: "poison", val: { code: "MY_PLUGIN.PAYLOAD", reason: String(error), maybeDelivered: false, attributes: [] } };
  }
  const wanted = {
    topic: "bus:shipments.wanted",
    headers: [],
    contentType: "application/json",
    payload: encode(JSON.stringify(shipped)),
    attributes: [],
  };
  return { tag: "processed", val: { messages: [wanted], events: [], signals: [], attributes: [] } };
}
