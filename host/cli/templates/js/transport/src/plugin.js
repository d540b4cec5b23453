// @ts-check
// A transport: posts each message to one URL. Change `request` and `outcome.js` into what your receiver speaks.
import "./console.js";
import { send } from "waybill:plugin/http-blocking@0.1.0";
import { remaining } from "waybill:plugin/control@0.1.0";
import { outcomeOf } from "./outcome.js";

// Milliseconds of a call's time that are kept back, so that the last answer still reaches the host in time.
const MARGIN_MS = 250;

let config;

/** @type {import("waybill:plugin/transport-api@0.1.0").TransportApi} */
export const transportApi = {
  async open(call, args) {
    // Valid by the schema in waybill-plugin.toml.
    config = JSON.parse(args.config);
    // One call at a time: this world blocks.
    return { maxConcurrentCalls: 1, features: [], attributes: [] };
  },

  // Exactly one outcome a message, in order.
  async sendBatch(call, batch) {
    const timeout = Math.max(1, remaining(call.id) - MARGIN_MS);
    // All at once; one result each, in order.
    return send(batch.map((message) => request(message, timeout))).map(outcomeOf);
  },

  async health(call) {
    return { status: "ready", attributes: [] };
  },

  async tick(call) {},

  async close(call) {},
};

/**
 * @param {import("waybill:plugin/types@0.1.0").Message} message
 * @param {number} timeout
 * @returns {import("waybill:plugin/http-blocking@0.1.0").Request}
 */
function request(message, timeout) {
  return {
    method: "POST",
    url: config.url,
    headers: [
      ["content-type", message.contentType ?? "application/octet-stream"],
      ["idempotency-key", message.id],
    ],
    body: message.payload,
    timeout,
    attributes: [],
  };
}
