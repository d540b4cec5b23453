#!/usr/bin/env node
// Follows event streams and writes each event once to a file, a line of JSON each. Nothing but Node.js, which runs it as it is.
//
//   node src/follow.ts --selector stream:task.node.7 --into events.jsonl --cursor cursor.json [--url http://127.0.0.1:7070] ...
//
// It begins with what is kept, goes on with what comes, and keeps its cursor in a file. It subscribes again behind the last event that it has
// when the connection breaks, when the host goes away, and when it was told that it lagged. What it did for an event stands in the file with
// the events, so after a crash that file says which of them come a second time, and they are dropped.

import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, truncateSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

// A host says something every 15 seconds.
const SILENCE_MS = 45_000;
// The cursor is saved after so many events, or so much time: what came since comes again after a crash, and is dropped.
const SAVE_EVENTS = 100;
const SAVE_MS = 1_000;
// Pauses between attempts while the host isn't there.
const PAUSE_MS = 200;
const PAUSE_MAX_MS = 5_000;
// Ends after which the same cursor goes on.
const RESUMABLE = ["EVENT.LAGGED", "EVENT.STALLED", "PROVIDER.UNAVAILABLE"];
// Answers to a request that may be made again.
const PASSING = [408, 425, 429, 500, 502, 503, 504];

interface Event {
  event_id: string;
  stream: string;
  /** A number in quotes, so that it is exact. */
  seq: string;
  [field: string]: unknown;
}

interface Problem {
  code: string;
  detail: string;
}

interface Options {
  selector: string;
  into: string;
  cursor: string;
  url: string;
  token?: string;
  until?: number;
}

/** The host can't go on from this cursor, or won't: a person has to decide. */
class Ended extends Error {}

/** The subscription ended, and the same again goes on. */
class Resumed extends Error {}

/** The file with the events: what was done for them, and so which of them were. */
class Events {
  readonly latest = new Map<string, bigint>();
  private readonly file: number;

  constructor(path: string) {
    const text = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
    // What a crash cut off is written again.
    const whole = text.lastIndexOf("\n") + 1;
    for (const line of text.subarray(0, whole).toString().split("\n")) {
      if (line) {
        const event: Event = JSON.parse(line);
        this.latest.set(event.stream, BigInt(event.seq));
      }
    }
    this.file = openSync(path, "a");
    truncateSync(path, whole);
  }

  /** Writes an event, unless it is there: within a stream events come in the order of their numbers. */
  take(event: Event): void {
    const seq = BigInt(event.seq);
    if (seq <= (this.latest.get(event.stream) ?? 0n)) return;
    writeFileSync(this.file, `${JSON.stringify(event)}\n`);
    this.latest.set(event.stream, seq);
  }

  sync(): void {
    fsyncSync(this.file);
  }

  /** What the last numbers of all streams add up to. */
  count(): number {
    return Number([...this.latest.values()].reduce((sum, seq) => sum + seq, 0n));
  }
}

/** Where to go on, in a file that is whole at any moment. */
class Cursor {
  value: string | undefined;
  private unsaved = 0;
  private savedAt = Date.now();
  private readonly path: string;
  private readonly selector: string;
  private readonly events: Events;

  constructor(path: string, selector: string, events: Events) {
    this.path = path;
    this.selector = selector;
    this.events = events;
    if (!existsSync(path)) return;
    const kept: { selector: string; cursor: string } = JSON.parse(readFileSync(path, "utf8"));
    // A cursor means something to the selector that it came from, and to no other.
    if (kept.selector !== selector) throw new Ended(`${path} is of ${kept.selector}: take another file for ${selector}`);
    this.value = kept.cursor;
  }

  move(value: string): void {
    this.value = value;
    this.unsaved += 1;
    if (this.unsaved >= SAVE_EVENTS || Date.now() - this.savedAt >= SAVE_MS) this.save();
  }

  save(): void {
    if (this.unsaved > 0) {
      // The cursor never says more than the events on disk.
      this.events.sync();
      const draft = `${this.path}.draft`;
      const file = openSync(draft, "w");
      writeFileSync(file, JSON.stringify({ selector: this.selector, cursor: this.value }));
      fsyncSync(file);
      closeSync(file);
      renameSync(draft, this.path);
    }
    this.unsaved = 0;
    this.savedAt = Date.now();
  }
}

/** The answer of the host, a line at a time. It ends when the host is silent for too long. */
async function* subscribe(options: Options, cursor: string | undefined): AsyncGenerator<string> {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (options.token) headers.authorization = `Bearer ${options.token}`;
  if (cursor) headers["last-event-id"] = cursor;
  const silence = new AbortController();
  const watch = setTimeout(() => silence.abort(new Resumed("the host is silent")), SILENCE_MS);
  try {
    const address = `${options.url.replace(/\/$/, "")}/v1/subscribe?selector=${encodeURIComponent(options.selector)}`;
    const answer = await fetch(address, { headers, signal: silence.signal });
    if (answer.status !== 200 || !answer.body) {
      const text = await answer.text();
      if (PASSING.includes(answer.status)) throw new Resumed(`${answer.status} ${text}`);
      throw new Ended(text.startsWith("{") ? said(JSON.parse(text)) : `${answer.status} ${text}`);
    }
    const decoder = new TextDecoder();
    let rest = "";
    for await (const piece of answer.body) {
      watch.refresh();
      const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } finally {
    clearTimeout(watch);
    silence.abort();
  }
}

function said(problem: Problem): string {
  return `${problem.code}: ${problem.detail}`;
}

/** Takes what the host says until the subscription ends, or until there is enough: then it answers true. */
async function read(options: Options, events: Events, cursor: Cursor, heard: () => void): Promise<boolean> {
  let name: string | undefined;
  let id: string | undefined;
  let data: string | undefined;
  for await (const line of subscribe(options, cursor.value)) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
    else if (line === "") {
      if (name === "error") {
        const problem: Problem = JSON.parse(data ?? "{}");
        throw RESUMABLE.includes(problem.code) ? new Resumed(said(problem)) : new Ended(said(problem));
      }
      if (data !== undefined) events.take(JSON.parse(data));
      // Without an event: some were left out that this token may not read.
      if (id !== undefined) cursor.move(id);
      heard();
      if (options.until !== undefined && events.count() >= options.until) return true;
      name = id = data = undefined;
    }
  }
  throw new Resumed("the connection ended");
}

async function follow(options: Options): Promise<void> {
  const events = new Events(options.into);
  const cursor = new Cursor(options.cursor, options.selector, events);
  let pause = PAUSE_MS;
  for (;;) {
    try {
      if (await read(options, events, cursor, () => (pause = PAUSE_MS))) return cursor.save();
    } catch (why) {
      cursor.save();
      // A connection that breaks is a TypeError of fetch.
      if (!(why instanceof Resumed || why instanceof TypeError)) throw why;
      console.error(`${why.message}; goes on behind ${cursor.value ?? "nothing"}`);
    }
    await sleep(pause);
    pause = Math.min(pause * 2, PAUSE_MAX_MS);
  }
}

function options(): Options {
  const { values } = parseArgs({
    options: {
      selector: { type: "string" },
      into: { type: "string" },
      cursor: { type: "string" },
      url: { type: "string", default: process.env.WAYBILL_URL ?? "http://127.0.0.1:7070" },
      token: { type: "string", default: process.env.WAYBILL_TOKEN ?? "" },
      until: { type: "string" },
    },
  });
  const { selector, into, cursor, url, token, until } = values;
  if (!selector || !into || !cursor || !url) {
    console.error("usage: follow.ts --selector stream:NAME --into FILE --cursor FILE [--url URL] [--token TOKEN] [--until N]");
    process.exit(2);
  }
  return { selector, into, cursor, url, token, until: until === undefined ? undefined : Number(until) };
}

try {
  await follow(options());
} catch (why) {
  if (!(why instanceof Ended)) throw why;
  console.error(`can't go on: ${why.message}`);
  process.exitCode = 1;
}
