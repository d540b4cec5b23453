"""A source: takes messages off a queue over HTTP. Change `queue_api.py` and the requests into what your sender speaks."""

import json
from typing import List, Set

from wit_world import exports
from wit_world.exports import source_api as api
from wit_world.imports import control, http, http_types, inbound_types, types
from componentize_py_types import Err

from queue_api import Unreadable, fresh, read, taken_off

# Milliseconds of a call's time that are kept back, so that the last answer still reaches the host in time.
MARGIN_MS = 250


class State:
    """What lives from `open` to `close`. Not in `SourceApi`: every call gets a fresh one of those."""

    url = ""
    # Most deliveries that may be out at once, and the ids of those that are: brought and not settled.
    window = 0
    out: Set[str] = set()


class SourceApi(exports.SourceApi):
    async def open(self, call: types.CallInfo, args: types.OpenArgs, wants: api.SourceArgs) -> types.Opened:
        # Valid by the schema in waybill-plugin.toml.
        State.url = json.loads(args.config)["url"]
        State.window = wants.window
        return types.Opened(None, None, None, 1, None, None, [], [])

    async def pull(self, call: types.CallInfo, max: int, max_bytes: int, wait: int) -> api.Pulled:
        room = min(State.window - len(State.out), max)
        if room <= 0:
            return api.Pulled([], True, nothing())
        # The queue answers from its head, so what is out comes along.
        asked = len(State.out) + room
        [answer] = await http.send([request("GET", f"{State.url}?max={asked}", call)])
        status = getattr(answer.value, "status", 0)
        try:
            entries = read(status, getattr(answer.value, "body", b""))
        except Unreadable as error:
            fault = types.Fault("MY_PLUGIN.UNAVAILABLE", str(error), None, False, [])
            raise Err(types.PluginError(types.ErrorKind.UNAVAILABLE, fault))
        brought = fresh(entries, State.out, room)
        State.out.update(entry["id"] for entry in brought)
        return api.Pulled([delivery(entry) for entry in brought], not brought, nothing())

    async def settle(self, call: types.CallInfo, items: List[api.Settlement]) -> List[api.Settled]:
        """One result an item, in order."""
        return [await settle_one(call, item) for item in items]

    async def health(self, call: types.CallInfo) -> types.HealthReport:
        return types.HealthReport(types.Health.READY, None, [])

    async def tick(self, call: types.CallInfo) -> inbound_types.Notices:
        return nothing()

    async def quiesce(self, call: types.CallInfo) -> None:
        """Nothing is fetched ahead."""

    async def close(self, call: types.CallInfo) -> None:
        return None


async def settle_one(call: types.CallInfo, item: api.Settlement) -> api.Settled:
    id = item.token.decode()
    if isinstance(item.disposition, api.Disposition_Ack):
        [answer] = await http.send([request("DELETE", f"{State.url}/{id}", call)])
        word, reason = taken_off(getattr(answer.value, "status", 0))
        if word == "failed":
            return api.Settled_Failed(types.Fault("MY_PLUGIN.SETTLE", reason, None, False, []))
        State.out.discard(id)
        return api.Settled_Done() if word == "done" else api.Settled_Lost()
    if isinstance(item.disposition, api.Disposition_Release):
        # It stays in the queue and comes again.
        State.out.discard(id)
        return api.Settled_Done()
    return api.Settled_Failed(types.Fault("PLUGIN.UNSUPPORTED", "the queue can't do that", None, False, []))


def nothing() -> inbound_types.Notices:
    """Nothing to tell besides."""
    return inbound_types.Notices([], [], False, [])


def request(method: str, url: str, call: types.CallInfo) -> http_types.Request:
    timeout = max(1, control.remaining(call.id) - MARGIN_MS)
    return http_types.Request(method, url, [], b"", timeout, None, [])


def delivery(entry: dict) -> api.Delivery:
    payload = json.dumps(entry["payload"], separators=(",", ":")).encode()
    return api.Delivery(
        token=entry["id"].encode(),
        id=entry["id"],
        position=None,
        group=None,
        topic=entry["topic"],
        key=None,
        headers=[],
        content_type="application/json",
        payload=payload,
        omitted=None,
        tenant=None,
        event_type=None,
        event_version=None,
        correlation_id=None,
        causation_id=None,
        reply_to=None,
        occurred_at=None,
        delivery_count=None,
        deliveries_left=None,
        redelivered=False,
        settle_within=None,
        attributes=[],
    )
