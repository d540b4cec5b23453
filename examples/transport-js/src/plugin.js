// A transport over a byte stream of its own, in JavaScript: writes messages into the books of a ledger.
import { Connection } from "waybill:plugin/net-blocking@0.1.0";
import { remaining } from "waybill:plugin/control@0.1.0";
import { settled } from "waybill:plugin/progress@0.1.0";
import { get as secret } from "waybill:plugin/secrets@0.1.0";
import { bytesOf, joined, lines, outcome, put, textOf, word } from "./protocol.js";

// Milliseconds of a call's time that are kept back, so that the answer still reaches the host in time.
const MARGIN_MS = 250;
// Below the minute after which the ledger hangs up.
const TICK_EVERY_MS = 20_000;
const READ_BYTES_MAX = 256 * 1024;

let config;
// The connection between calls, with the bytes of it that aren't understood yet; undefined while there is none.
let peer;

export const transportApi = {
  async open(call, args) {
    // Valid by the schema in waybill-plugin.toml.
    config = { window: 64, silence_ms: 10_000, ...JSON.parse(args.config) };
    connect(call);
    // One call at a time: this world blocks.
    return { peer: config.address, maxConcurrentCalls: 1, tickEvery: TICK_EVERY_MS, features: [], attributes: [] };
  },

  // Exactly one outcome a message, in order.
  async sendBatch(call, batch) {
    const outcomes = [];
    talk(call, () => {
      for (let sent = 0; outcomes.length < batch.length; ) {
        const more = batch.slice(sent, outcomes.length + config.window);
        // All that the window takes in one write: each is a crossing into the host.
        write(call, joined(more.map((message) => put(message.id, message.destination, message.payload))));
        sent += more.length;
        for (const line of readLines(call)) {
          const result = outcome(line);
          if (result === undefined || outcomes.length >= sent) {
            throw failure("unavailable", "LEDGER.PROTOCOL", `the ledger answers ${JSON.stringify(line)}`);
          }
          // Told at once: it stands, whatever becomes of the rest.
          settled(call.id, outcomes.length, result);
          outcomes.push(result);
        }
      }
    });
    return outcomes;
  },

  async health(call) {
    try {
      await transportApi.tick(call);
      return { status: "ready", attributes: [] };
    } catch (error) {
      return { status: "down", detail: (error.payload ?? error).fault?.reason ?? String(error), attributes: [] };
    }
  },

  async tick(call) {
    talk(call, () => {
      if (ask(call, "PING\n") !== "PONG") {
        throw failure("unavailable", "LEDGER.PROTOCOL", "the ledger doesn't answer PING with PONG");
      }
    });
  },

  async close(call) {
    if (peer !== undefined) {
      try {
        write(call, bytesOf("BYE\n"));
      } catch {
        // It is of no interest any more whether the ledger hears it.
      }
      peer = undefined;
    }
  },
};

// Does something with the connection. It is given up when that fails: nobody knows what is still to come on it.
function talk(call, something) {
  if (peer === undefined) connect(call);
  try {
    something();
  } catch (error) {
    peer = undefined;
    throw error;
  }
}

function connect(call) {
  const options = { tls: undefined, timeout: timeLeft(call), keepAlive: undefined, attributes: [] };
  const connection = attempt("LEDGER.CONNECT", false, () => Connection.connect(`tcp://${config.address}`, options));
  peer = { connection, unread: new Uint8Array(0), waiting: [] };
  try {
    if (readLine(call) !== "LEDGER 1") {
      throw failure("unsupported", "LEDGER.PROTOCOL", `${config.address} is no ledger that speaks version 1`);
    }
    const answer = ask(call, `HELLO ${word(token())}\n`);
    if (answer !== "WELCOME") {
      throw failure("denied", "LEDGER.DENIED", `the ledger refuses the token: ${answer}`);
    }
  } catch (error) {
    peer = undefined;
    throw error;
  }
}

// The granted token; none if it isn't granted.
function token() {
  try {
    return textOf(secret("token").value);
  } catch {
    return "";
  }
}

function ask(call, line) {
  write(call, bytesOf(line));
  return readLine(call);
}

function write(call, bytes) {
  if (bytes.length > 0) attempt("LEDGER.LOST", true, () => peer.connection.write(bytes, timeLeft(call)));
}

// The next line; later ones wait.
function readLine(call) {
  const [first, ...rest] = readLines(call);
  peer.waiting = rest;
  return first;
}

// All whole lines that have come, at least one.
function readLines(call) {
  if (peer.waiting.length > 0) return peer.waiting.splice(0);
  for (;;) {
    const bytes = attempt("LEDGER.LOST", true, () => peer.connection.read(1, READ_BYTES_MAX, timeLeft(call)));
    const { whole, rest } = lines(joined([peer.unread, bytes]));
    peer.unread = rest;
    if (whole.length > 0) return whole;
  }
}

function timeLeft(call) {
  return Math.max(1, Math.min(remaining(call.id) - MARGIN_MS, config.silence_ms));
}

// A host call on the stream; its error as one of this transport.
function attempt(code, maybeDelivered, something) {
  try {
    return something();
  } catch (thrown) {
    const error = thrown.payload ?? thrown;
    // What only an operator can mend is `denied`, the rest `unavailable`.
    const kind = error.tag === "denied" || error.tag === "tls" ? "denied" : "unavailable";
    throw failure(kind, code, error.val ?? error.tag ?? String(thrown), maybeDelivered);
  }
}

function failure(kind, code, reason, maybeDelivered = false) {
  return { kind, fault: { code, reason, maybeDelivered, attributes: [] } };
}
