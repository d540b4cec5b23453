// @ts-check
// A participant with one step that can be undone. Change `reserve.js`, or add further steps to `steps`.
import "./console.js";
import { read, reserve } from "./reserve.js";
import { encode } from "./utf8.js";

let config;

const bytes = (value) => encode(JSON.stringify(value));
const output = (data, messages = []) => ({ data: bytes(data), messages, events: [], attributes: [] });

/** @type {import("waybill:plugin/participant-api@0.1.0").ParticipantApi} */
export const participantApi = {
  // Called at load, without a network.
  steps() {
    return [
      { name: "reserve", compensates: true, idempotent: true, summary: "Reserves stock for an order.", attributes: [] },
    ];
  },

  async open(call, args) {
    // Valid by the schema in waybill-plugin.toml.
    config = { most: 100, ...JSON.parse(args.config) };
    return { maxConcurrentCalls: 1, features: [], attributes: [] };
  },

  async execute(call, name, context, input) {
    const reservation = reserve(config, read(input));
    // The key is the same on every attempt: a receiver can tell a repeat.
    const message = {
      topic: "bus:stock.reserved",
      headers: [["idempotency-key", context.idempotencyKey]],
      contentType: "application/json",
      payload: bytes(reservation),
      attributes: [],
    };
    return { tag: "output", val: output(reservation, [message]) };
  },

  // `given` is what `execute` answered; none: nobody knows whether it was done. Giving back what was never reserved is a success.
  async compensate(call, name, context, input, given) {
    return output(null);
  },

  async close(call) {},
};
