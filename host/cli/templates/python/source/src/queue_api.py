"""What the queue says. Pure, so that `python3 -m unittest` runs it without the sandbox."""

import json
from typing import List, Set, Tuple


class Unreadable(Exception):
    """The queue gave no list."""


def read(status: int, body: bytes) -> List[dict]:
    """The list that the queue answers; status 0 = no answer."""
    if status != 200:
        raise Unreadable(f"the queue answered {status}" if status else "the queue gave no answer")
    try:
        return json.loads(body.decode())
    except ValueError as error:
        raise Unreadable(f"the queue's answer can't be read: {error}")


def fresh(entries: List[dict], out: Set[str], room: int) -> List[dict]:
    """The first `room` messages that aren't out already."""
    return [entry for entry in entries if entry["id"] not in out][: max(0, room)]


def taken_off(status: int) -> Tuple[str, str]:
    """What a status says of a message that was to be taken off."""
    if 200 <= status <= 299:
        return "done", ""
    if status == 404:
        return "lost", ""
    return "failed", f"the queue answered {status}" if status else "the queue gave no answer"
