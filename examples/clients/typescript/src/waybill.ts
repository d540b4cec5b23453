// Waybill's API for TypeScript programs, with nothing but `fetch`. Copy this file, and worker.ts for an external worker.
//
// Messages and sagas have ids of yours. While nobody knows what became of a request, it is made again under the same id, so that it is done
// once however often it was asked for; after a crash your program does the same. Any other call of the API goes by `Waybill.call`.

// Pauses before the same request is made again; a host that is busy may ask for longer ones.
export const PAUSES_MS = [200, 1_000, 5_000];
const PAUSE_MAX_MS = 30_000;
// Nothing is answered later than this.
const ANSWER_MS = 60_000;
// The longest wait that the host takes.
export const WAIT_MS = 20_000;
// Answers after which the same request may succeed.
const PASSING = [408, 425, 429, 500, 502, 503, 504];
// States of a saga that has ended, is stuck, or waits for an operator.
const AT_REST = ["completed", "cancelled", "failed", "paused"];

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** Other fields of a message (key, headers, tenant, not_before, ...), of the start of a saga or of a settlement. */
export type Fields = { [field: string]: Json };

/** A claimed message; these are not all of its fields. */
export interface Item {
  id: string;
  tenant: string;
  topic: string;
  target: string;
  token: string;
  attempt: number;
  headers: { [name: string]: string | string[] };
  payload?: Json;
  payload_base64?: string;
}

/** A saga with its steps; these are not all of its fields. */
export type Saga = { id: string; state: string; code?: string; saga: { steps: { name: string; state: string; output?: Json }[] } };
type Problem = { code?: string; detail?: string; retry_after_ms?: number | null };

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** The host would refuse the same request again. `code` has a page in Waybill's docs/errors. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(path: string, status: number, problem: Problem) {
    const code = problem.code ?? `HTTP.${status}`;
    super(`${path}: ${status} ${code}: ${problem.detail ?? ""}`);
    this.status = status;
    this.code = code;
  }
}

/** No answer, or none that tells: it may have been done. The same again, with the same id, finds out. */
export class Unanswered extends Error {
  readonly againInMs: number;

  constructor(words: string, againInMs = 0) {
    super(words);
    this.againInMs = againInMs;
  }
}

/** A host. */
export class Waybill {
  readonly url: string;
  readonly token: string | undefined;

  constructor(url = "http://127.0.0.1:7070", token?: string) {
    this.url = url.replace(/\/$/, "");
    this.token = token;
  }

  /** One request, once. */
  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers: Record<string, string> = { accept: "application/json", "content-type": "application/json" };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const request = { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(ANSWER_MS) };
    let status: number;
    let answer: unknown;
    try {
      const response = await fetch(this.url + path, request);
      status = response.status;
      answer = await response.json().catch((error: unknown) => {
        if (response.ok) throw error;
      });
    } catch (error) {
      throw new Unanswered(`${path}: ${error}`);
    }
    if (status < 300) return answer as T;
    const problem = (answer ?? {}) as Problem;
    if (PASSING.includes(status)) throw new Unanswered(`${path}: ${status} ${problem.detail}`, problem.retry_after_ms ?? 0);
    throw new Refused(path, status, problem);
  }

  /** One request, made again while its outcome isn't known: only for what may be done twice. */
  async untilAnswered<T>(method: string, path: string, body?: unknown): Promise<T> {
    for (const pause of PAUSES_MS) {
      try {
        return await this.call<T>(method, path, body);
      } catch (error) {
        if (!(error instanceof Unanswered)) throw error;
        await sleep(Math.min(Math.max(pause, error.againInMs), PAUSE_MAX_MS));
      }
    }
    return this.call<T>(method, path, body);
  }

  /** Commits a message once. */
  async enqueue(id: string, topic: string, payload: Json, more: Fields = {}): Promise<void> {
    await this.untilAnswered("POST", "/v1/messages", { id, topic, payload, ...more });
  }

  /** Starts a saga once. */
  async startSaga(id: string, definition: string, input: Json, more: Fields = {}): Promise<void> {
    await this.untilAnswered("POST", "/v1/sagas", { id, definition, input, ...more });
  }

  /** The saga with its steps once it is at rest; its `state` tells how it ended. Throws if it goes on beyond that time. */
  async awaitSaga(id: string, withinMs: number, tenant?: string): Promise<Saga> {
    const end = performance.now() + withinMs;
    for (;;) {
      const wait = Math.min(WAIT_MS, Math.max(0, Math.floor(end - performance.now())));
      const query = new URLSearchParams({ wait_ms: String(wait), ...(tenant ? { tenant } : {}) });
      const saga = await this.untilAnswered<Saga>("GET", `/v1/sagas/${encodeURIComponent(id)}?${query}`);
      if (AT_REST.includes(saga.state)) return saga;
      if (performance.now() >= end) throw new Error(`saga ${id} is ${saga.state} after ${withinMs} ms`);
      // Where many callers wait already, the host answers at once.
      await sleep(200);
    }
  }

  /** Completes the step of a saga whose message (`bus:`) this is, with an output, or fails it. */
  async reply(item: Item, what: { output: Json } | { error: { reason: string; code?: string; retryable?: boolean } }): Promise<void> {
    const of = (name: string) => String(item.headers[`waybill-saga-${name}`]);
    const path = `/v1/sagas/${encodeURIComponent(of("id"))}/replies?${new URLSearchParams({ tenant: item.tenant })}`;
    await this.untilAnswered("POST", path, { step: of("step"), direction: of("direction"), attempt: Number(of("attempt")), ...what });
  }
}
