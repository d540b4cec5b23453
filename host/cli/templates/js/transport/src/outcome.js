// @ts-check
// What an answer, or none, means for the message. Pure, so that `npm test` runs it in node.

/** @import { Fault, Outcome } from "waybill:plugin/types@0.1.0" */
/** @import { HttpError, Response } from "waybill:plugin/http-types@0.1.0" */

/**
 * @param {{ tag: "ok"; val: Response } | { tag: "err"; val: HttpError }} result
 * @returns {Outcome}
 */
export function outcomeOf(result) {
  return result.tag === "ok" ? answered(result.val) : unanswered(result.val);
}

/** @type {(answer: Pick<Response, "status" | "headers">) => Outcome} */
function answered({ status, headers }) {
  const fault = { code: `MY_PLUGIN.${status}`, reason: `the receiver answered ${status}`, maybeDelivered: false, attributes: [] };
  if (status >= 200 && status <= 299) {
    return { tag: "ack", val: { brokerRef: String(status), duplicate: false, attributes: [] } };
  }
  if ([408, 425, 429].includes(status) || (status >= 500 && status <= 599)) {
    return { tag: "retryable", val: { ...fault, after: retryAfter(headers) } };
  }
  if ([401, 403, 404].includes(status)) {
    // An empty scope is the message's destination.
    return { tag: "blocked", val: { scope: "", fault } };
  }
  return { tag: "permanent", val: fault };
}

/** @type {(failure: HttpError) => Outcome} */
function unanswered({ error, maybeDelivered }) {
  const fault = { code: "MY_PLUGIN.NO_ANSWER", reason: error.val ?? error.tag, maybeDelivered, attributes: [] };
  if (error.tag === "denied") {
    return { tag: "blocked", val: { scope: "", fault: { ...fault, code: "MY_PLUGIN.DENIED" } } };
  }
  if (error.tag === "cancelled" && !maybeDelivered) {
    return { tag: "release", val: { ...fault, code: "MY_PLUGIN.CANCELLED" } };
  }
  return { tag: "retryable", val: fault };
}

// Retry-After in seconds as milliseconds.
function retryAfter(headers) {
  const value = headers.find(([name]) => name === "retry-after")?.[1].trim() ?? "";
  return /^[0-9]{1,6}$/.test(value) ? Number(value) * 1000 : undefined;
}
