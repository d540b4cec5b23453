// @ts-check
// `console`, which QuickJS lacks: what it is given goes to the host's log. `plugin.js` imports it before anything else.
import { log } from "waybill:plugin/log@0.1.0";

function shown(value) {
  if (typeof value === "string") {
    return value;
  }
  if (value instanceof Error) {
    return [String(value), value.stack].filter(Boolean).join("\n");
  }
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    // A BigInt, or an object that holds itself.
    return String(value);
  }
}

/** @param {import("waybill:plugin/log@0.1.0").Level} level */
const at = (level) => (...values) => log(level, values.map(shown).join(" "), []);

globalThis.console = {
  trace: at("trace"),
  debug: at("debug"),
  log: at("info"),
  info: at("info"),
  warn: at("warn"),
  error: at("error"),
};
