// @ts-check
// A source: takes messages off a queue over HTTP. Change `queue.js` and the requests into what your sender speaks.
import "./console.js";
import { send } from "waybill:plugin/http-blocking@0.1.0";
import { remaining } from "waybill:plugin/control@0.1.0";
import { delivery, fresh, read, takenOff } from "./queue.js";
import { decode } from "./utf8.js";

// Milliseconds of a call's time that are kept back, so that the last answer still reaches the host in time.
const MARGIN_MS = 250;

let config;
// Most deliveries that may be out at once, and the ids of those that are: brought and not settled.
let window;
const out = new Set();

/** @type {import("waybill:inbound/source-api@0.1.0").SourceApi} */
export const sourceApi = {
  async open(call, args, wants) {
    // Valid by the schema in waybill-plugin.toml.
    config = JSON.parse(args.config);
    window = wants.window;
    return { maxConcurrentCalls: 1, features: [], attributes: [] };
  },

  async pull(call, max, maxBytes, wait) {
    const room = Math.min(window - out.size, max);
    // The queue answers from its head, so what is out comes along.
    const entries = room > 0 ? read(send([request("GET", `${config.url}?max=${out.size + room}`, call)])[0]) : [];
    const deliveries = fresh(entries, out, room).map(delivery);
    deliveries.forEach(({ id }) => out.add(id));
    return { deliveries, caughtUp: deliveries.length === 0, notices: nothing() };
  },

  // One result an item, in order.
  async settle(call, items) {
    return items.map(({ token, disposition }) => {
      const id = decode(token);
      if (disposition.tag === "ack") {
        const settled = takenOff(send([request("DELETE", `${config.url}/${id}`, call)])[0]);
        if (settled.tag !== "failed") {
          out.delete(id);
        }
        return settled;
      }
      if (disposition.tag !== "release") {
        return unsupported();
      }
      // It stays in the queue and comes again.
      out.delete(id);
      return { tag: "done" };
    });
  },

  async health(call) {
    return { status: "ready", attributes: [] };
  },

  async tick(call) {
    return nothing();
  },

  // Nothing is fetched ahead.
  async quiesce(call) {},

  async close(call) {},
};

// Nothing to tell besides.
function nothing() {
  return { revoked: [], lost: [], waiting: false, attributes: [] };
}

function request(method, url, call) {
  const timeout = Math.max(1, remaining(call.id) - MARGIN_MS);
  return { method, url, headers: [], body: new Uint8Array(), timeout, attributes: [] };
}

/** @returns {import("waybill:inbound/source-api@0.1.0").Settled} */
function unsupported() {
  const fault = { code: "PLUGIN.UNSUPPORTED", reason: "the queue can't do that", maybeDelivered: false, attributes: [] };
  return { tag: "failed", val: fault };
}
