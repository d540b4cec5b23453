"""What the stock service's answers mean for a step. Pure, so that `python3 -m unittest` runs it without the sandbox."""

from dataclasses import dataclass
from typing import List, Optional, Tuple


@dataclass
class Verdict:
    """How a step failed, by its name in the contract. `after` is in milliseconds."""

    word: str
    code: str
    reason: str
    after: Optional[int] = None
    effect_unknown: bool = False


def refusal(status: int, body: bytes, headers: List[Tuple[str, str]]) -> Optional[Verdict]:
    """None: the service did it, or had done it before with the same key (409)."""
    if 200 <= status <= 299 or status == 409:
        return None
    code = f"STOCK.{status}"
    reason = body.decode("utf-8", "replace")[:200] or f"the stock service answered {status}"
    if status in (408, 425, 429):
        return Verdict("retryable", code, reason, retry_after(headers))
    if 500 <= status <= 599:
        # It may have been done before something broke.
        return Verdict("retryable", code, reason, retry_after(headers), effect_unknown=True)
    if status in (401, 403):
        # Not this order but our rights are at fault: every step that needs the service waits.
        return Verdict("blocked", code, reason)
    return Verdict("permanent", code, reason)


def no_answer(kind: str, reason: str, maybe_delivered: bool) -> Verdict:
    if kind in ("denied", "tls", "resolve"):
        return Verdict("blocked", f"STOCK.{kind.upper()}", reason)
    return Verdict("retryable", "STOCK.NO_ANSWER", reason, None, maybe_delivered)


def retry_after(headers: List[Tuple[str, str]]) -> Optional[int]:
    """Retry-After in seconds as milliseconds."""
    for name, value in headers:
        if name.lower() == "retry-after" and value.strip().isdecimal() and len(value.strip()) <= 6:
            return int(value) * 1000
    return None
