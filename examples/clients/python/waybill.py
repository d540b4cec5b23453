"""Waybill's API for Python programs, with nothing but the standard library (3.8 or later). Copy this file.

Messages and sagas have ids of yours. While nobody knows what became of a request, it is made again under the same id, so that it is done once
however often it was asked for; after a crash your program does the same. Any other call of the API goes by `Waybill.call`.
"""

import base64
import contextlib
import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Callable, Dict, Iterator, List, Optional
from urllib.parse import quote, urlencode

# Pauses before the same request is made again; a host that is busy may ask for longer ones.
PAUSES_S = (0.2, 1.0, 5.0)
PAUSE_MAX_S = 30.0
# Nothing is answered later than this.
ANSWER_S = 60.0
# The longest wait that the host takes.
WAIT_MS = 20_000
# Answers after which the same request may succeed.
PASSING = (408, 425, 429, 500, 502, 503, 504)
# States of a saga that has ended, is stuck, or waits for an operator.
AT_REST = ("completed", "cancelled", "failed", "paused")

Item = Dict[str, Any]


class Refused(Exception):
    """The host would refuse the same request again. `code` has a page in Waybill's docs/errors."""

    def __init__(self, path: str, status: int, problem: Dict[str, Any]):
        self.status, self.code = status, str(problem.get("code", f"HTTP.{status}"))
        super().__init__(f"{path}: {status} {self.code}: {problem.get('detail', '')}")


class Unanswered(Exception):
    """No answer, or none that tells: it may have been done. The same again, with the same id, finds out."""

    def __init__(self, words: str, again_in_s: float = 0.0):
        self.again_in_s = again_in_s
        super().__init__(words)


class GiveUp(Exception):
    """Raised by a worker's handler: this message can't be handled, however often it is tried."""


class Waybill:
    """A host. Its calls may be made by several threads at once."""

    def __init__(self, url: str = "http://127.0.0.1:7070", token: Optional[str] = None):
        self.url, self.token = url.rstrip("/"), token

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One request, once."""
        headers = {"accept": "application/json", "content-type": "application/json"}
        if self.token:
            headers["authorization"] = "Bearer " + self.token
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            problem = _problem(error)
            if error.code in PASSING:
                raise Unanswered(f"{path}: {error.code} {problem}", (problem.get("retry_after_ms") or 0) / 1000) from error
            raise Refused(path, error.code, problem) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unanswered(f"{path}: {error!r}") from error

    def until_answered(self, method: str, path: str, body: Any = None) -> Any:
        """One request, made again while its outcome isn't known: only for what may be done twice."""
        for pause in PAUSES_S:
            try:
                return self.call(method, path, body)
            except Unanswered as error:
                time.sleep(min(max(pause, error.again_in_s), PAUSE_MAX_S))
        return self.call(method, path, body)

    def enqueue(self, message_id: str, topic: str, payload: Any, **more: Any) -> None:
        """Commits a message once. `more` are other fields of a message: key, headers, tenant, not_before, ..."""
        self.until_answered("POST", "/v1/messages", {"id": message_id, "topic": topic, "payload": payload, **more})

    def start_saga(self, saga_id: str, definition: str, saga_input: Any, **more: Any) -> None:
        """Starts a saga once. `more` are other fields of a start: version, tenant, deadline_ms, headers, ..."""
        start = {"id": saga_id, "definition": definition, "input": saga_input, **more}
        self.until_answered("POST", "/v1/sagas", start)

    def await_saga(self, saga_id: str, within_s: float, tenant: Optional[str] = None) -> Dict[str, Any]:
        """The saga with its steps once it is at rest; its `state` tells how it ended. TimeoutError if it goes on beyond that time."""
        end = time.monotonic() + within_s
        while True:
            wait_ms = min(WAIT_MS, max(0, int((end - time.monotonic()) * 1000)))
            query = urlencode({"wait_ms": wait_ms, **({"tenant": tenant} if tenant else {})})
            saga = self.until_answered("GET", f"/v1/sagas/{quote(saga_id, safe='')}?{query}")
            if saga["state"] in AT_REST:
                return saga
            if time.monotonic() >= end:
                raise TimeoutError(f"saga {saga_id} is {saga['state']} after {within_s} s")
            # Where many callers wait already, the host answers at once.
            time.sleep(0.2)

    def reply(self, item: Item, **what: Any) -> None:
        """Completes the step of a saga whose message (`bus:`) this is, with `output=`, or fails it, with `error={"reason": ...}`."""
        of = {name.lower(): value for name, value in item["headers"].items()}
        step = {"step": of["waybill-saga-step"], "direction": of["waybill-saga-direction"], "attempt": int(of["waybill-saga-attempt"])}
        path = f"/v1/sagas/{quote(of['waybill-saga-id'], safe='')}/replies?{urlencode({'tenant': item['tenant']})}"
        self.until_answered("POST", path, {**step, **what})


class Worker:
    """An external worker: what is routed to the transport `external` is its until it settles it or its lease ends."""

    def __init__(self, waybill: Waybill, worker_id: str, topic: Optional[str] = None, lease_ms: int = 60_000):
        self.waybill, self.worker_id, self.topic, self.lease_ms = waybill, worker_id, topic, lease_ms

    def claim(self, limit: int = 10, wait_ms: int = WAIT_MS) -> List[Item]:
        ask = {"worker_id": self.worker_id, "limit": limit, "lease_ms": self.lease_ms, "wait_ms": wait_ms}
        return self.waybill.call("POST", "/v1/outbox/claim", {**ask, **({"topic": self.topic} if self.topic else {})})["items"]

    def check_dedup(self, item: Item) -> Optional[Dict[str, Any]]:
        """The first delivery of the same payload to the same target, where the route says `dedup`."""
        ask = {"target": item["target"], "payload_sha": item["payload_sha256"], "tenant": item["tenant"]}
        return self.waybill.until_answered("POST", "/v1/outbox/check-dedup", ask)["first"]

    def settle(self, item: Item, result: str, **more: Any) -> Dict[str, Any]:
        """What became of it: `ack`, `nack`, `dead`, `release` or `renew`. It is applied once at most; if it isn't, somebody else has it."""
        one = {"id": item["id"], "tenant": item["tenant"], "token": item["token"], "result": result, **more}
        for pause in (*PAUSES_S, None):
            answer = self.waybill.until_answered("POST", "/v1/outbox/settle", {"worker_id": self.worker_id, "items": [one]})["items"][0]
            # The store failed, for a moment perhaps.
            if answer["result"] != "outbox_flush_db_error" or pause is None:
                return answer
            time.sleep(pause)

    @contextlib.contextmanager
    def heartbeat(self, items: List[Item]) -> Iterator[Dict[str, Item]]:
        """Renews the leases of messages meanwhile. What it gives has those, by token, that are still the worker's: take out what is settled."""
        held, over = {item["token"]: item for item in items}, threading.Event()

        def renew() -> None:
            while not over.wait(self.lease_ms / 3000):
                for token, item in list(held.items()):
                    with contextlib.suppress(Refused, Unanswered):
                        if token in held and not self.settle(item, "renew")["applied"]:
                            held.pop(token, None)

        threading.Thread(target=renew, daemon=True).start()
        try:
            yield held
        finally:
            over.set()

    def work(self, handle: Callable[[Item], Optional[str]], stop: threading.Event, limit: int = 10, wait_ms: int = 5_000) -> None:
        """Handles messages until `stop` is set. What `handle` returns is kept as the receipt; what it raises costs the message an attempt."""
        while not stop.is_set():
            try:
                items = self.claim(limit, wait_ms)
            except Unanswered:
                stop.wait(PAUSES_S[1])
                continue
            with self.heartbeat(items) as held:
                for item in items:
                    if item["token"] not in held:
                        continue
                    result, more = ("release", {}) if stop.is_set() else _outcome(handle, item)
                    held.pop(item["token"], None)
                    # If nobody takes it, the lease ends and the message comes again.
                    with contextlib.suppress(Unanswered):
                        self.settle(item, result, **more)


def payload_of(item: Item) -> Any:
    """The payload: JSON, or bytes."""
    return item["payload"] if "payload" in item else base64.b64decode(item["payload_base64"])


def _outcome(handle: Callable[[Item], Optional[str]], item: Item) -> Any:
    try:
        receipt = handle(item)
        return "ack", {} if receipt is None else {"receipt": receipt}
    except GiveUp as error:
        return "dead", {"error": str(error)}
    except Exception as error:
        return "nack", {"error": repr(error)}


def _problem(error: urllib.error.HTTPError) -> Dict[str, Any]:
    try:
        problem = json.loads(error.read())
        return problem if isinstance(problem, dict) else {}
    except (OSError, http.client.HTTPException, ValueError):
        return {}
