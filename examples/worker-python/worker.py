#!/usr/bin/env python3
"""A worker outside: claims messages, writes each to a store over HTTP, and settles it. Standard library only.

    worker.py --store http://127.0.0.1:9000/memories [--url http://127.0.0.1:7070] [--worker-id NAME] ...

For each message: check-dedup, renew, write, renew, then ack, retry with a backoff of its own, or dead letter. When a
settlement isn't applied, somebody else has the message: it is dropped, and the host has written the audit event.
Every message it is done with is a line of JSON on stdout.
"""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

# What the host is called with.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients" / "python"))
from waybill import Refused, Unanswered, Waybill, Worker, payload_of  # noqa: E402

RECEIPT_BYTES_MAX = 1024
# The host didn't answer, or nothing that can be read.
HOST_FAILED = (Unanswered, ValueError, LookupError, TypeError)


class StoreError(Exception):
    """The store didn't take it."""

    def __init__(self, code, reason, permanent):
        super().__init__(reason)
        self.code, self.reason, self.permanent = code, reason, permanent


def write(store, item):
    """Writes a message to the store; the memory's id. The message's id makes a second write of it harmless."""
    payload = payload_of(item)
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    headers = {"content-type": item.get("content_type") or "application/json", "idempotency-key": item["id"]}
    try:
        with urllib.request.urlopen(urllib.request.Request(store, body, headers), timeout=300) as answer:
            memory_id = json.load(answer)["memory_id"]
        if not isinstance(memory_id, str) or len(memory_id.encode()) > RECEIPT_BYTES_MAX:
            raise ValueError(f"memory_id isn't a text of at most {RECEIPT_BYTES_MAX} bytes")
        return memory_id
    except urllib.error.HTTPError as error:
        permanent = 400 <= error.code < 500 and error.code not in (408, 425, 429)
        raise StoreError(f"MEMORY.{error.code}", f"the store answered {error.code}", permanent) from error
    except OSError as error:
        raise StoreError("MEMORY.UNREACHABLE", f"the store gave no answer: {error}", False) from error
    except (http.client.HTTPException, ValueError, LookupError, TypeError, RecursionError) as error:
        # It may have taken it; the message's id makes the next write harmless.
        reason = f"the store's answer can't be used: {error!r}"
        raise StoreError("MEMORY.UNUSABLE", reason[:500], False) from error


def backoff_seconds(retry_count, base, most, jitter):
    """min(base * 2^retry, most) * (1 + random(-jitter, +jitter))"""
    return max(0.001, min(base * 2**retry_count, most) * (1 + random.uniform(-jitter, jitter)))


def handle(worker, args, item):
    """Delivers one message; its result code and more, for the log."""
    first = worker.check_dedup(item)
    if first:
        answer = worker.settle(item, "ack", receipt=first["receipt"].get("broker_ref"))
        return ("outbox_flush_dedup_hit" if answer["applied"] else answer["result"]), {"first": first["id"]}
    renewed = worker.settle(item, "renew")
    if not renewed["applied"]:
        return renewed["result"], {"state": renewed.get("state")}
    try:
        memory_id = write(args.store, item)
    except StoreError as error:
        fault = {"code": error.code, "reason": error.reason}
        retry = item["retry_count"] + 1
        if error.permanent or retry >= args.max_retries:
            answer = worker.settle(item, "dead", error=fault)
        else:
            wait = backoff_seconds(retry, args.base_seconds, args.max_seconds, args.jitter)
            at = datetime.now(timezone.utc) + timedelta(seconds=wait)
            answer = worker.settle(item, "nack", error=fault, next_attempt_at=at.isoformat())
        return answer["result"], {"error": error.reason}
    # So that the ack doesn't come after the end of the lease.
    renewed = worker.settle(item, "renew")
    if not renewed["applied"]:
        return renewed["result"], {"state": renewed.get("state"), "memory_id": memory_id}
    answer = worker.settle(item, "ack", receipt=memory_id)
    return answer["result"], {"memory_id": memory_id, "state": answer.get("state")}


def release(worker, item):
    """Gives a message back; if the host isn't there, the end of the lease does."""
    try:
        worker.settle(item, "release")
    except (Refused, *HOST_FAILED) as error:
        print(f"{item['id']} isn't given back: {error!r}", file=sys.stderr)


def run(worker, args):
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    while not stopping:
        try:
            items = worker.claim(args.limit, args.wait_ms)
        except Refused as error:
            sys.exit(f"the host refuses {error}")
        except HOST_FAILED as error:
            print(f"the host isn't there: {error!r}", file=sys.stderr)
            time.sleep(1)
            continue
        for item in items:
            if stopping:
                release(worker, item)
                continue
            try:
                result, more = handle(worker, args, item)
            except Refused as error:
                result, more = "refused_by_host", {"error": str(error)}
            except HOST_FAILED as error:
                # Nobody knows; the lease ends and the message comes again.
                result, more = "outbox_flush_db_timeout", {"error": repr(error)}
            line = {"worker": worker.worker_id, "id": item["id"], "attempt": item["attempt"], "result": result, **more}
            print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description="Claims messages from Waybill and writes them to a store.")
    parser.add_argument("--url", default=os.environ.get("WAYBILL_URL", "http://127.0.0.1:7070"))
    parser.add_argument("--token-file", help="file with a token of the role worker")
    parser.add_argument("--store", required=True, help="URL that takes a POST a message")
    parser.add_argument("--worker-id", default=f"{socket.gethostname()}-{os.getpid()}")
    parser.add_argument("--topic", help="only such topics, e.g. bus:memory.**")
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--lease-ms", type=int, default=120_000)
    parser.add_argument("--wait-ms", type=int, default=10_000)
    parser.add_argument("--max-retries", type=int, default=5)
    parser.add_argument("--base-seconds", type=float, default=60)
    parser.add_argument("--max-seconds", type=float, default=3600)
    parser.add_argument("--jitter", type=float, default=0.3)
    args = parser.parse_args()
    token = None
    if args.token_file:
        with open(args.token_file, encoding="utf-8") as file:
            token = file.read().strip()
    run(Worker(Waybill(args.url, token), args.worker_id, args.topic, args.lease_ms), args)


if __name__ == "__main__":
    main()
