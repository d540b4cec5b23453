"""The step itself. Pure, so that `python3 -m unittest` runs it without the sandbox."""

import json


class Refused(Exception):
    """It will never work."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def read(text: bytes) -> object:
    """The input as JSON. Another try would read the same, so what can't be read is refused for good."""
    try:
        return json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise Refused("MY_PLUGIN.INPUT", f"the input isn't JSON: {error}")


def reserve(most: int, order: object) -> dict:
    sku, count = (order.get("sku"), order.get("count")) if isinstance(order, dict) else (None, None)
    if not isinstance(sku, str) or not isinstance(count, int):
        raise Refused("MY_PLUGIN.INPUT", "an order has a sku and a count")
    if count > most:
        raise Refused("MY_PLUGIN.TOO_MANY", f"an order has at most {most} pieces")
    return {"sku": sku, "reserved": count}
