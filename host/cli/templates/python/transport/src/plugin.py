"""A transport: posts each message to one URL. Change `request` and `outcome.py` into what your receiver speaks."""

import json
from typing import List

from wit_world import exports
from wit_world.imports import control, http, http_types, types

from outcome import answered, unanswered

# Milliseconds of a call's time that are kept back, so that the last answer still reaches the host in time.
MARGIN_MS = 250


class State:
    """What lives from `open` to `close`. Not in `TransportApi`: every call gets a fresh one of those."""

    url = ""


class TransportApi(exports.TransportApi):
    async def open(self, call: types.CallInfo, args: types.OpenArgs) -> types.Opened:
        # Valid by the schema in waybill-plugin.toml.
        State.url = json.loads(args.config)["url"]
        return types.Opened(
            peer=None,
            max_batch=None,
            max_payload_bytes=None,
            # Calls may overlap at each `await`.
            max_concurrent_calls=4,
            tick_every=None,
            dedup_window=None,
            features=[],
            attributes=[],
        )

    async def send_batch(self, call: types.CallInfo, batch: List[types.Message]) -> List[types.Outcome]:
        """Exactly one outcome a message, in order."""
        timeout = max(1, control.remaining(call.id) - MARGIN_MS)
        # All at once; one result each, in order.
        results = await http.send([request(message, timeout) for message in batch])
        return [outcome_of(result) for result in results]

    async def health(self, call: types.CallInfo) -> types.HealthReport:
        return types.HealthReport(types.Health.READY, None, [])

    async def tick(self, call: types.CallInfo) -> None:
        return None

    async def close(self, call: types.CallInfo) -> None:
        return None


def request(message: types.Message, timeout: int) -> http_types.Request:
    headers = [
        ("content-type", message.content_type or "application/octet-stream"),
        ("idempotency-key", message.id),
    ]
    return http_types.Request("POST", State.url, headers, message.payload, timeout, None, [])


def outcome_of(result) -> types.Outcome:
    """One exchange as the outcome of its message."""
    if hasattr(result.value, "status"):
        verdict = answered(result.value.status, result.value.headers)
    else:
        error = result.value
        kind = type(error.error).__name__.removeprefix("NetError_").lower()
        verdict = unanswered(kind, getattr(error.error, "value", kind), error.maybe_delivered)
    if verdict.word == "ack":
        return types.Outcome_Ack(types.Receipt(verdict.code, False, []))
    fault = types.Fault(verdict.code, verdict.reason, verdict.after, verdict.maybe_delivered, [])
    if verdict.word == "blocked":
        # An empty scope is the message's destination.
        return types.Outcome_Blocked(types.Block("", fault))
    if verdict.word == "permanent":
        return types.Outcome_Permanent(fault)
    if verdict.word == "release":
        return types.Outcome_Release(fault)
    return types.Outcome_Retryable(fault)
