// @ts-check
// A retry policy: each failure waits `step_ms` longer than the one before, at most `cap_ms`. Change `steps.js`.
import { checked, decide } from "./steps.js";

/** @type {import("waybill:plugin/backoff-api@0.1.0").BackoffApi} */
export const backoffApi = {
  // The error is for the operator.
  validate(config) {
    checked(JSON.parse(config));
  },

  decide(config, attempt) {
    return decide(checked(JSON.parse(config)), attempt);
  },
};
