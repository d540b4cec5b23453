// @ts-check
// The policy itself. Pure, so that `npm test` runs it in node.

// The configuration with its defaults; throws one sentence if it contradicts itself.
export function checked({ step_ms = 1000, cap_ms = 60000 }) {
  if (cap_ms < step_ms) {
    throw `cap_ms (${cap_ms}) is below step_ms (${step_ms}): raise it`;
  }
  return { step_ms, cap_ms };
}

/** @import { Attempt, Decision } from "waybill:plugin/backoff-api@0.1.0" */
/** @type {(config: { step_ms: number; cap_ms: number }, attempt: Attempt) => Decision} */
export function decide({ step_ms, cap_ms }, attempt) {
  if (attempt.kind === "permanent") {
    return { tag: "dead", val: attempt.reason };
  }
  return { tag: "delay", val: Math.min(step_ms * attempt.number, cap_ms) };
}
