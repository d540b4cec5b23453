#!/usr/bin/env node
// Sends a message twice under one id, books a parcel by a saga whose step an external worker does, and waits for its end.
//
//   node src/example.ts [URL [ORDER]]
import { Waybill, type Item } from "./waybill.ts";
import { GiveUp, Worker } from "./worker.ts";

const [url = "http://127.0.0.1:7070", id = "order-17"] = process.argv.slice(2);
const waybill = new Waybill(url);
const booking = { name: "parcel", version: 1, steps: [{ name: "book", action: "bus:parcels.book" }] };

/** Books a parcel, and answers the saga's step before its message is acknowledged: both may come twice. */
async function handle(item: Item): Promise<string> {
  if (!item.topic.startsWith("bus:parcels.")) throw new GiveUp("that is no parcel");
  console.log(JSON.stringify({ handled: item.topic, payload: item.payload }));
  if (item.topic === "bus:parcels.book") await waybill.reply(item, { output: { parcel: "p-1" } });
  return "p-1";
}

const stop = new AbortController();
const working = new Worker(waybill, "example", "bus:parcels.**").work(handle, stop.signal, 10, 500);
try {
  for (let time = 0; time < 2; time += 1) {
    await waybill.enqueue(`${id}-note`, "bus:parcels.note", { order: id });
  }
  // Defined again it changes nothing.
  await waybill.untilAnswered("POST", "/v1/saga-definitions", booking);
  await waybill.startSaga(id, "parcel", { order: id });
  const { state, saga } = await waybill.awaitSaga(id, 60_000);
  console.log(JSON.stringify({ state, output: saga.steps[0]?.output }));
} finally {
  stop.abort();
  await working;
}
