"""A handler: a paid order leaves a shipment. Change `shipment.py`."""

import json
from typing import List

from wit_world import exports
from wit_world.imports import inbound_types as inbound, types

from shipment import shipment


class HandlerApi(exports.HandlerApi):
    async def open(self, call: types.CallInfo, args: types.OpenArgs) -> types.Opened:
        return types.Opened(None, None, None, 1, None, None, [], [])

    async def handle(self, call: types.CallInfo, batch: List[inbound.Inbound]) -> List[inbound.Verdict]:
        """One verdict a message, in order."""
        return [handle_one(message) for message in batch]

    async def close(self, call: types.CallInfo) -> None:
        return None


def handle_one(message: inbound.Inbound) -> inbound.Verdict:
    try:
        shipped = shipment(json.loads(message.payload.decode()))
    except (ValueError, RecursionError) as error:
        # Another try would read the same.
        return inbound.Verdict_Poison(types.Fault("MY_PLUGIN.PAYLOAD", str(error), None, False, []))
    payload = json.dumps(shipped).encode()
    wanted = types.Outgoing(
        None, "bus:shipments.wanted", None, [], "application/json", payload, None, None, None, None, []
    )
    return inbound.Verdict_Processed(inbound.Handled([wanted], [], [], []))
