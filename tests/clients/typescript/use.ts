// Uses the types that openapi-typescript makes of Waybill's OpenAPI document: the operations of messages, dead letters, sagas, the inbox and
// streams. Its first argument is the host's address, the second a topic that is refused. The host has a route `bus:work.**` to `external`, a relay
// of `task.**`, and a key for approvals.
import createClient from "openapi-fetch";

import type { components, paths } from "./waybill.js";

type Schema = components["schemas"];

const [url, topic] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url });

function check(holds: unknown, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

interface Answer<Data> {
  data?: Data;
  error?: Schema["Problem"];
  response: Response;
}

/** What a request that succeeds answers. */
async function done<Data>(asked: Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await asked;
  check(data !== undefined, [response.url, response.status, error]);
  return data;
}

/** That a request is refused with that code, or any where none is named. */
async function refused(asked: Promise<Answer<unknown>>, code?: string) {
  const { error, response } = await asked;
  check(error && error.code === (code ?? error.code) && error.status === response.status, [response.url, error]);
}

async function until<Data>(holds: (found: Data) => boolean, ask: () => Promise<Data>): Promise<Data> {
  for (let round = 0; round < 600; round++) {
    const found = await ask();
    if (holds(found)) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not within 30 s: ${ask}`);
}

const at = (id: string) => ({ params: { path: { id } } });

async function messages() {
  const message: Schema["NewMessage"] = { topic, id: "by-typescript", payload: { order: 1 } };
  const sent = await client.POST("/v1/messages", { body: message });
  check(sent.response.status === 201, sent.error);
  const shown: Schema["Message"] = await done(client.GET("/v1/messages/{id}", at("by-typescript")));
  // It is shown with the scheme that leads it.
  check(shown.topic === `http:${topic}`, shown);
  const later = { topic, id: "later", payload: 1, not_before: "2100-01-01T00:00:00Z" };
  const statements = [{ query: "CREATE order:1" }];
  const transacted: Schema["Transacted"] = await done(
    client.POST("/v1/transactions", { body: { statements, messages: [later] } }),
  );
  check(transacted.ids[0] === "later" && transacted.results.length === 1, transacted);
  const moved = await done(
    client.POST("/v1/messages/{id}/reschedule", { ...at("later"), body: { not_before: "2101-01-01T00:00:00Z" } }),
  );
  check(String(moved.not_before).startsWith("2101-01-01"), moved);
  // What waits for its time is listed first.
  const newest = await done(client.GET("/v1/messages", { params: { query: { newest: true, limit: 1 } } }));
  check(newest.items[0]?.id === "later" && newest.next_cursor, newest);
  const cancelled = await done(client.POST("/v1/messages/{id}/cancel", at("later")));
  check(cancelled.state === "cancelled", cancelled);
  await refused(client.GET("/v1/messages/{id}", at("nobody")), "OUTBOX.NOT_FOUND");
}

async function workers() {
  await done(client.POST("/v1/messages", { body: { topic: "bus:work.a", id: "w-0", payload: 1 } }));
  const claim: Schema["Claim"] = { worker_id: "typescript", wait_ms: 5000, limit: 1 };
  const claimed: Schema["Claimed"] = await done(client.POST("/v1/outbox/claim", { body: claim }));
  const [first] = claimed.items;
  check(first, claimed);
  const settle: Schema["Settle"] = { items: [{ id: first.id, token: first.token, result: "ack", receipt: "r-1" }] };
  const settled: Schema["Settled"] = await done(client.POST("/v1/outbox/settle", { body: settle }));
  check(settled.items[0]?.applied, settled);
  check((await done(client.GET("/v1/outbox/stats"))).items.length > 0, "no depths");
  await done(client.GET("/v1/outbox/blocked"));
}

async function deadLetters() {
  await until((found) => found.items.length > 0, () => done(client.GET("/v1/dead-letters")));
  const dead: Schema["DeadLetter"] = await done(client.GET("/v1/dead-letters/{id}", at("by-typescript")));
  // The tag tells which it is, and with it what it has.
  if (dead.kind === "message") check(dead.topic === `http:${topic}`, dead);
  else throw new Error(dead.kind);
  const groups = await done(client.GET("/v1/dead-letters/groups"));
  check(groups.items[0]?.count === 1, groups);
  const body = { note: "looked at" };
  const fenced = await done(client.POST("/v1/dead-letters/{id}/quarantine", { ...at("by-typescript"), body }));
  check(fenced.kind === "message" && fenced.note === "looked at", fenced);
  const edited: Schema["Enqueued"] = await done(
    client.POST("/v1/dead-letters/{id}/edit", { ...at("by-typescript"), body: { payload: { order: 2 } } }),
  );
  check(edited.ids.length === 1, edited);
  // Without a body: there is nothing to say.
  const replayed: Schema["ReplayedDeadLetter"] = await done(
    client.POST("/v1/dead-letters/{id}/replay", at("by-typescript")),
  );
  check(replayed.kind === "message", replayed);
  await refused(client.GET("/v1/dead-letters/{id}", at("nobody")), "DEAD.NOT_FOUND");
  const dry = await done(client.POST("/v1/operations", { body: { kind: "replay", filter: "id=*", dry_run: true } }));
  check("matched" in dry, dry);
  check((await done(client.GET("/v1/operations"))).items.length === 0, "a dry run is no operation");
}

async function sagas() {
  const steps = [
    { name: "book", action: "bus:work.book" },
    { name: "paid", action: "wait:paid" },
    { name: "release", action: "wait:approval" },
  ];
  const defined: Schema["SagaDefined"] = await done(
    client.POST("/v1/saga-definitions", { body: { name: "parcel", version: 1, steps } }),
  );
  check(defined.name === "parcel" && defined.version === 1, defined);
  check((await done(client.GET("/v1/saga-definitions"))).items.length === 1, "no definitions");
  await done(client.GET("/v1/saga-definitions/{name}", { params: { path: { name: "parcel" } } }));
  for (const id of ["s-1", "s-2", "s-3"]) {
    const start: Schema["StartSaga"] = { id, definition: "parcel", input: { order: 17 } };
    const started: Schema["SagaStarted"] = await done(client.POST("/v1/sagas", { body: start }));
    check(started.id === id, started);
  }
  const waits = (what: string) =>
    until(
      (found: Schema["Saga"]) => found.waiting_for === what,
      () => done(client.GET("/v1/sagas/{id}", at("s-1"))),
    );
  await waits("reply");
  const reply: Schema["StepReply"] = { step: "book", output: { parcel: 1 } };
  await done(client.POST("/v1/sagas/{id}/replies", { ...at("s-1"), body: reply }));
  await waits("signal:paid");
  const signal = { params: { path: { id: "s-1", name: "paid" } }, body: { payment: "p-1" } };
  await done(client.POST("/v1/sagas/{id}/signals/{name}", signal));
  await waits("approval");
  const links: Schema["ApprovalLinks"] = await done(
    client.POST("/v1/sagas/{id}/links", { ...at("s-1"), body: { by: "ann" } }),
  );
  const token = links.approve.split("/").at(-1);
  check(token, links);
  // A browser is shown a page in its place.
  const approval: Schema["Approval"] | string = await done(
    client.GET("/v1/approvals/{token}", { params: { path: { token } } }),
  );
  check(typeof approval !== "string" && approval.saga === "s-1", approval);
  await done(client.POST("/v1/approvals/{token}", { params: { path: { token } } }));
  await refused(client.POST("/v1/sagas/{id}/approve", at("s-1")), "SAGA.NOT_WAITING");
  await refused(client.POST("/v1/sagas/{id}/reject", at("s-1")), "SAGA.NOT_WAITING");
  const ended: Schema["Saga"] = await done(
    client.GET("/v1/sagas/{id}", { params: { path: { id: "s-1" }, query: { wait_ms: 5000 } } }),
  );
  check(ended.state === "completed" && ended.saga?.steps.length === 3, ended);
  const paused: Schema["SagaActed"] = await done(client.POST("/v1/sagas/{id}/pause", at("s-2")));
  check(paused.id === "s-2", paused);
  await done(client.POST("/v1/sagas/{id}/resume", at("s-2")));
  await refused(client.POST("/v1/sagas/{id}/retry", at("s-2")), "SAGA.STATE");
  await done(client.POST("/v1/sagas/{id}/skip", { ...at("s-2"), body: { step: "paid" } }));
  await done(client.POST("/v1/sagas/{id}/cancel", at("s-2")));
  await done(client.POST("/v1/sagas/{id}/kill", at("s-3")));
  await refused(client.POST("/v1/sagas/{id}/accept", { ...at("s-3"), body: { reason: "by hand" } }), "SAGA.ENDED");
  const listed = await done(client.GET("/v1/sagas"));
  check(listed.items.length === 3, listed);
}

async function inbox() {
  const listed = await done(client.GET("/v1/inbox"));
  check(listed.items.length === 0, listed);
  const stats: Schema["InboxStats"] = await done(client.GET("/v1/inbox/stats"));
  check(stats.consumers.length === 0, stats);
  await refused(client.GET("/v1/inbox/{consumer}/{id}", { params: { path: { consumer: "nobody", id: "17" } } }));
  check((await done(client.GET("/v1/sources"))).items.length === 0, "no sources");
  await refused(client.POST("/v1/sources/{name}/pause", { params: { path: { name: "nobody" } } }));
}

async function streams() {
  const named = (name: string) => ({ params: { path: { name } } });
  const event = { resource_type: "TASK", resource_id: "t", op: "CREATE" as const, schema_version: 1 };
  const appended: Schema["Appended"] = await done(
    client.POST("/v1/streams/{name}/events", { ...named("task.a"), body: { events: [event, event] } }),
  );
  // Numbers are texts, so that they are exact.
  check(appended.seqs?.join() === "1,2", appended);
  const kept: Schema["EventEnvelope"] = { ...event, event_id: "e", ts_ms: 1_700_000_000_123, stream: "task.old", seq: "1" };
  await done(client.POST("/v1/streams/{name}/import", { ...named("task.old"), body: { events: [kept] } }));
  const read: Schema["StreamEvents"] = await done(client.GET("/v1/streams/{name}/events", named("task.a")));
  check(read.items.length === 2 && read.last_seq === "2", read);
  const many: Schema["ManyEvents"] = await done(
    client.GET("/v1/events", { params: { query: { prefix: "task." } } }),
  );
  check(many.items.length > 0, many);
  check((await done(client.GET("/v1/streams"))).items.length === 2, "not both streams");
  const detail: Schema["StreamDetail"] = await done(client.GET("/v1/streams/{name}", named("task.a")));
  check(detail.name === "task.a", detail);
  await done(client.GET("/v1/events/stats"));
  const ticket: Schema["Ticket"] = await done(
    client.POST("/v1/subscribe/tickets", { body: { selector: "stream:task.a" } }),
  );
  check(ticket.ticket, ticket);
  const lost = { params: { query: { selector: "stream:task.a", cursor: "none" } } };
  await refused(client.GET("/v1/subscribe", { ...lost, parseAs: "json" }), "EVENT.CURSOR");
  const relays = await done(client.GET("/v1/relays"));
  check(relays.items[0]?.name === "copies", relays);
  await done(client.POST("/v1/streams/{name}/purge", { ...named("task.old"), body: { dry_run: true } }));
  const gone = { params: { path: { name: "task.old" }, query: { dry_run: true } } };
  const acted: Schema["StreamActed"] = await done(client.DELETE("/v1/streams/{name}", gone));
  check(acted, gone);
}

for (const family of [messages, workers, deadLetters, sagas, inbox, streams]) await family();
console.log("used");
