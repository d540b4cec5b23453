"""What an answer, or none, means for the message. Pure, so that `python3 -m unittest` runs it without the sandbox."""

from dataclasses import dataclass
from typing import List, Optional, Tuple


@dataclass
class Verdict:
    """An outcome by its name in the contract. `after` is in milliseconds."""

    word: str
    code: str
    reason: str = ""
    after: Optional[int] = None
    maybe_delivered: bool = False


def answered(status: int, headers: List[Tuple[str, str]]) -> Verdict:
    code, reason = f"MY_PLUGIN.{status}", f"the receiver answered {status}"
    if 200 <= status <= 299:
        return Verdict("ack", str(status))
    if status in (408, 425, 429) or 500 <= status <= 599:
        return Verdict("retryable", code, reason, retry_after(headers))
    if status in (401, 403, 404):
        return Verdict("blocked", code, reason)
    return Verdict("permanent", code, reason)


def unanswered(kind: str, reason: str, maybe_delivered: bool) -> Verdict:
    if kind == "denied":
        return Verdict("blocked", "MY_PLUGIN.DENIED", reason)
    if kind == "cancelled" and not maybe_delivered:
        return Verdict("release", "MY_PLUGIN.CANCELLED", "the host is stopping")
    return Verdict("retryable", "MY_PLUGIN.NO_ANSWER", reason, None, maybe_delivered)


def retry_after(headers: List[Tuple[str, str]]) -> Optional[int]:
    """Retry-After in seconds as milliseconds."""
    for name, value in headers:
        if name == "retry-after" and value.strip().isdecimal() and len(value.strip()) <= 6:
            return int(value) * 1000
    return None
