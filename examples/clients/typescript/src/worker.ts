// An external worker of Waybill. It needs waybill.ts beside it.
import { PAUSES_MS, sleep, Unanswered, WAIT_MS, type Fields, type Item, type Waybill } from "./waybill.ts";

export type Settlement = "ack" | "nack" | "dead" | "release" | "renew";
/** What came of a settlement. If it isn't applied somebody else has the message. */
export type Settled = { id: string; applied: boolean; result: string; code?: string; state?: string };
export type Handler = (item: Item) => Promise<string | undefined>;

/** Thrown by a handler: this message can't be handled, however often it is tried. */
export class GiveUp extends Error {}

/** An external worker: what is routed to the transport `external` is its until it settles it or its lease ends. */
export class Worker {
  readonly waybill: Waybill;
  readonly id: string;
  readonly topic: string | undefined;
  readonly leaseMs: number;

  constructor(waybill: Waybill, id: string, topic?: string, leaseMs = 60_000) {
    this.waybill = waybill;
    this.id = id;
    this.topic = topic;
    this.leaseMs = leaseMs;
  }

  async claim(limit = 10, waitMs = WAIT_MS): Promise<Item[]> {
    const ask = { worker_id: this.id, limit, lease_ms: this.leaseMs, wait_ms: waitMs, topic: this.topic };
    return (await this.waybill.call<{ items: Item[] }>("POST", "/v1/outbox/claim", ask)).items;
  }

  /** What became of a message. It is applied once at most. */
  async settle(item: Item, result: Settlement, more: Fields = {}): Promise<Settled> {
    const one = { id: item.id, tenant: item.tenant, token: item.token, result, ...more };
    const all = { worker_id: this.id, items: [one] };
    for (let tries = 0; ; tries += 1) {
      const settled = (await this.waybill.untilAnswered<{ items: [Settled] }>("POST", "/v1/outbox/settle", all)).items[0];
      const pause = PAUSES_MS[tries];
      // The store failed, for a moment perhaps.
      if (settled.result !== "outbox_flush_db_error" || pause === undefined) return settled;
      await sleep(pause);
    }
  }

  /** Handles messages until `stop` is aborted. What `handle` gives is kept as the receipt; what it throws costs the message an attempt. */
  async work(handle: Handler, stop: AbortSignal, limit = 10, waitMs = 5_000): Promise<void> {
    while (!stop.aborted) {
      const items = await this.claim(limit, waitMs).catch(passing<Item[]>);
      if (items === undefined) await sleep(1_000);
      const held = new Set(items);
      const renewing = setInterval(() => void this.renew(held), this.leaseMs / 3);
      try {
        for (const item of items ?? []) {
          if (!held.has(item)) continue;
          const [result, more] = stop.aborted ? (["release", {}] as const) : await outcome(handle, item);
          held.delete(item);
          // If nobody takes it, the lease ends and the message comes again.
          await this.settle(item, result, more).catch(passing<Settled>);
        }
      } finally {
        clearInterval(renewing);
      }
    }
  }

  /** Renews the leases of messages, and takes out those that are another's by now. */
  private async renew(held: Set<Item>): Promise<void> {
    for (const item of [...held]) {
      const renewed = await this.settle(item, "renew").catch(() => undefined);
      if (renewed?.applied === false) held.delete(item);
    }
  }
}

/** Undefined for a request that may be made again later. */
function passing<T>(error: unknown): T | undefined {
  if (error instanceof Unanswered) return undefined;
  throw error;
}

async function outcome(handle: Handler, item: Item): Promise<readonly [Settlement, Fields]> {
  try {
    const receipt = await handle(item);
    return ["ack", receipt === undefined ? {} : { receipt }];
  } catch (error) {
    return [error instanceof GiveUp ? "dead" : "nack", { error: String(error) }];
  }
}
