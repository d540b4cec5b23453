"""The work itself. Pure, so that `python3 -m unittest` runs it without the sandbox."""


def shipment(paid: dict) -> dict:
    if not isinstance(paid, dict) or not isinstance(paid.get("order"), int):
        raise ValueError("the payload has no order")
    return {"order": paid["order"], "parcels": 1}
