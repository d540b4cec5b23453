"""Saga steps in Python: `reserve` holds goods at a stock service and can be undone, `quote` asks for a price."""

import json
from typing import List, Optional

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import participant_api as api
from wit_world.imports import control, http, http_types, secrets, types

from answers import Verdict, no_answer, refusal

# Milliseconds of a call's time that are kept back, so that the answer still reaches the host in time.
MARGIN_MS = 500


class State:
    """What lives from `open` to `close`. Not in `ParticipantApi`: every call gets a fresh one of those."""

    url = ""
    token: Optional[str] = None


class ParticipantApi(exports.ParticipantApi):
    def steps(self) -> List[api.StepInfo]:
        return [
            api.StepInfo("reserve", True, True, "Holds goods for an order.", []),
            api.StepInfo("quote", False, True, "Asks what goods cost.", []),
        ]

    async def open(self, call: types.CallInfo, args: types.OpenArgs) -> types.Opened:
        # Valid by the schema in waybill-plugin.toml.
        State.url = json.loads(args.config)["url"].rstrip("/")
        State.token = token()
        return types.Opened(None, None, None, 1, None, None, [], [])

    async def execute(self, call: types.CallInfo, name: str, context: api.StepContext, input: bytes) -> api.StepDone:
        order = decoded(input, "input")
        if name == "reserve":
            held = await self.ask(call, "POST", "/holds", context, {"sku": field(order, "sku"), "count": field(order, "count")})
        else:
            held = await self.ask(call, "GET", f"/prices/{field(order, 'sku')}", context, None)
        return api.StepDone_Output(answer(held))

    async def compensate(
        self, call: types.CallInfo, name: str, context: api.StepContext, input: bytes, output: Optional[bytes]
    ) -> api.StepOutput:
        # The hold is named by the key of the step that made it, so that it is found although nobody knows its answer.
        hold = context.idempotency_key.removesuffix("compensate") + "execute"
        await self.ask(call, "POST", "/releases", context, {"hold": hold})
        return answer(None)

    async def close(self, call: types.CallInfo) -> None:
        return None

    async def ask(self, call: types.CallInfo, method: str, path: str, context: api.StepContext, body) -> object:
        """The service's JSON, or the step's error."""
        headers = [("idempotency-key", context.idempotency_key), ("x-tenant", context.tenant)]
        if State.token is not None:
            headers.append(("authorization", f"Bearer {State.token}"))
        payload = b""
        if body is not None:
            headers.append(("content-type", "application/json"))
            payload = json.dumps(body).encode()
        timeout = max(1, control.remaining(call.id) - MARGIN_MS)
        request = http_types.Request(method, State.url + path, headers, payload, timeout, None, [])
        result = (await http.send([request]))[0].value
        if not hasattr(result, "status"):
            kind = type(result.error).__name__.removeprefix("NetError_").lower()
            raise failed(no_answer(kind, str(getattr(result.error, "value", kind)), result.maybe_delivered))
        refused = refusal(result.status, result.body, result.headers)
        if refused is not None:
            raise failed(refused)
        return json.loads(result.body) if result.body else None


def answer(value: object) -> api.StepOutput:
    return api.StepOutput(json.dumps(value).encode(), None, [], [], [])


def decoded(data: bytes, what: str) -> dict:
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise failed(Verdict("permanent", "STOCK.INPUT", f"the {what} isn't JSON: {error}"))
    if not isinstance(value, dict):
        raise failed(Verdict("permanent", "STOCK.INPUT", f"the {what} isn't an object"))
    return value


def field(order: dict, name: str) -> object:
    if name not in order:
        raise failed(Verdict("permanent", "STOCK.INPUT", f"the input has no {name}"))
    return order[name]


def failed(verdict: Verdict) -> Err:
    fault = types.Fault(verdict.code, verdict.reason, verdict.after, verdict.effect_unknown, [])
    if verdict.word == "blocked":
        return Err(api.StepError_Blocked(types.Block("stock", fault)))
    if verdict.word == "permanent":
        return Err(api.StepError_Permanent(fault))
    return Err(api.StepError_Retryable(fault))


def token() -> Optional[str]:
    """The granted token; none if it isn't granted."""
    try:
        return secrets.get("token").value.decode()
    except Err:
        return None
