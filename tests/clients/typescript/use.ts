// Uses the types that openapi-typescript makes of Waybill's OpenAPI document: sends, reads, lists what died, puts it back.
// Its first argument is the host's address, the second a topic that is refused.
import createClient from "openapi-fetch";

import type { components, paths } from "./waybill.js";

const [url, topic] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url });

function check(holds: unknown, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

const message: components["schemas"]["NewMessage"] = { topic, id: "by-typescript", payload: { order: 1 } };
const sent = await client.POST("/v1/messages", { body: message });
check(sent.response.status === 201, sent.error);
const shown = await client.GET("/v1/messages/{id}", { params: { path: { id: "by-typescript" } } });
// It is shown with the scheme that leads it.
check(shown.data?.topic === `http:${topic}`, shown.error);

for (;;) {
  const listed = await client.GET("/v1/dead-letters");
  check(listed.data, listed.error);
  const dead = listed.data.items.find((item) => item.kind === "message" && item.id === "by-typescript");
  if (dead) break;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
const dead = await client.GET("/v1/dead-letters/{id}", { params: { path: { id: "by-typescript" } } });
check(dead.data, dead.error);
// The tag tells which it is, and with it what it has.
if (dead.data.kind === "message") check(dead.data.topic === `http:${topic}`, dead.data);
else throw new Error(dead.data.kind);
const replayed = await client.POST("/v1/dead-letters/{id}/replay", { params: { path: { id: "by-typescript" } } });
check(replayed.data?.kind === "message", replayed.error);

const missing = await client.GET("/v1/messages/{id}", { params: { path: { id: "nobody" } } });
check(missing.error?.code === "OUTBOX.NOT_FOUND", missing);
console.log("used");
