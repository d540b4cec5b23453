// @ts-check
// What the queue says. Pure, so that `npm test` runs it in node. What is thrown is the error of the contract.
import { decode, encode } from "./utf8.js";

/** @import { HttpError, Response } from "waybill:plugin/http-types@0.1.0" */
/** @import { Settled } from "waybill:inbound/source-api@0.1.0" */
/** @typedef {{ tag: "ok"; val: Response } | { tag: "err"; val: HttpError }} Answer */

/** @param {Answer} answer */
export function read(answer) {
  if (answer.tag !== "ok") {
    throw unavailable(answer.val.error.val ?? answer.val.error.tag);
  }
  if (answer.val.status !== 200) {
    throw unavailable(`the queue answered ${answer.val.status}`);
  }
  try {
    return JSON.parse(decode(answer.val.body));
  } catch (error) {
    throw unavailable(`the queue's answer can't be read: ${error}`);
  }
}

// The first `room` messages that aren't out already.
export function fresh(entries, out, room) {
  return entries.filter(({ id }) => !out.has(id)).slice(0, Math.max(0, room));
}

export function delivery({ id, topic, payload }) {
  const bytes = encode(JSON.stringify(payload));
  return { token: encode(id), id, topic, headers: [], payload: bytes, redelivered: false, attributes: [] };
}

/** @type {(answer: Answer) => Settled} */
export function takenOff(answer) {
  const status = answer.tag === "ok" ? answer.val.status : 0;
  if (status >= 200 && status <= 299) {
    return { tag: "done" };
  }
  if (status === 404) {
    return { tag: "lost" };
  }
  const reason = status === 0 ? "the queue gave no answer" : `the queue answered ${status}`;
  return { tag: "failed", val: { code: "MY_PLUGIN.SETTLE", reason, maybeDelivered: false, attributes: [] } };
}

function unavailable(reason) {
  const fault = { code: "MY_PLUGIN.UNAVAILABLE", reason, maybeDelivered: false, attributes: [] };
  return { kind: "unavailable", fault };
}
