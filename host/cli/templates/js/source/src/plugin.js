// A source: takes messages off a queue over HTTP. Change `queue.js` and the requests into what your sender speaks.
import { send } from "waybill:plugin/http-blocking@0.1.0";
import { remaining } from "waybill:plugin/control@0.1.0";
import { delivery, read, takenOff } from "./queue.js";
import { decode } from "./utf8.js";

// Milliseconds of a call's time that are kept back, so that the last answer still reaches the host in time.
const MARGIN_MS = 250;

let config;

export const sourceApi = {
  async open(call, args) {
    // Valid by the schema in waybill-plugin.toml.
    config = JSON.parse(args.config);
    return { maxConcurrentCalls: 1, features: [], attributes: [] };
  },

  async pull(call, max, maxBytes, wait) {
    const [answer] = send([request("GET", `${config.url}?max=${max}`, call)]);
    const deliveries = read(answer).map(delivery);
    return { deliveries, revoked: [], caughtUp: deliveries.length === 0, attributes: [] };
  },

  // One result an item, in order.
  async settle(call, items) {
    return items.map(({ token, disposition }) => {
      if (disposition.tag === "ack") {
        const id = decode(token);
        const [answer] = send([request("DELETE", `${config.url}/${id}`, call)]);
        return takenOff(answer);
      }
      // It stays in the queue and comes again.
      return disposition.tag === "release" ? { tag: "done" } : unsupported();
    });
  },

  async health(call) {
    return { status: "ready", attributes: [] };
  },

  async tick(call) {},

  async close(call) {},
};

function request(method, url, call) {
  const timeout = Math.max(1, remaining(call.id) - MARGIN_MS);
  return { method, url, headers: [], body: new Uint8Array(), timeout, attributes: [] };
}

function unsupported() {
  const fault = { code: "PLUGIN.UNSUPPORTED", reason: "the queue can't do that", maybeDelivered: false, attributes: [] };
  return { tag: "failed", val: fault };
}
