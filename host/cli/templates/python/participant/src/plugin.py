"""A participant with one step that can be undone. Change `reserve.py`, or add further steps to `steps`."""

import json
from typing import List, Optional

from wit_world import exports
from wit_world.exports import participant_api as api
from wit_world.imports import types
from componentize_py_types import Err

from reserve import Refused, read, reserve


class State:
    """What lives from `open` to `close`. Not in `ParticipantApi`: every call gets a fresh one of those."""

    most = 100


class ParticipantApi(exports.ParticipantApi):
    def steps(self) -> List[api.StepInfo]:
        """Called at load, without a network."""
        return [api.StepInfo("reserve", True, True, "Reserves stock for an order.", [])]

    async def open(self, call: types.CallInfo, args: types.OpenArgs) -> types.Opened:
        # Valid by the schema in waybill-plugin.toml.
        State.most = json.loads(args.config).get("most", State.most)
        return types.Opened(None, None, None, 1, None, None, [], [])

    async def execute(self, call: types.CallInfo, name: str, context: api.StepContext, input: bytes) -> api.StepDone:
        try:
            reservation = reserve(State.most, read(input))
        except Refused as refused:
            raise Err(api.StepError_Permanent(types.Fault(refused.code, str(refused), None, False, [])))
        # The key is the same on every attempt: a receiver can tell a repeat.
        headers = [("idempotency-key", context.idempotency_key)]
        payload = json.dumps(reservation).encode()
        message = types.Outgoing(
            None, "bus:stock.reserved", None, headers, "application/json", payload, None, None, None, None, []
        )
        return api.StepDone_Output(api.StepOutput(payload, None, [message], [], []))

    async def compensate(
        self, call: types.CallInfo, name: str, context: api.StepContext, input: bytes, output: Optional[bytes]
    ) -> api.StepOutput:
        """`output` is what `execute` answered; None: nobody knows whether it was done. Giving back what was never reserved is
        a success."""
        return api.StepOutput(b"null", None, [], [], [])

    async def close(self, call: types.CallInfo) -> None:
        return None
