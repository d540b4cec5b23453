#!/usr/bin/env python3
"""Sends a message twice under one id, books a parcel by a saga whose step an external worker does, and waits for its end.

    example.py [--url http://127.0.0.1:7070] [--id ORDER]
"""

import argparse
import json
import threading

from waybill import GiveUp, Waybill, Worker, payload_of

BOOKING = {"name": "parcel", "version": 1, "steps": [{"name": "book", "action": "bus:parcels.book"}]}


def main() -> None:
    parser = argparse.ArgumentParser(description="What clients of Waybill do.")
    parser.add_argument("--url", default="http://127.0.0.1:7070")
    parser.add_argument("--id", default="order-17")
    args = parser.parse_args()
    waybill, stop = Waybill(args.url), threading.Event()

    def handle(item):
        """Books a parcel, and answers the saga's step before its message is acknowledged: both may come twice."""
        if not item["topic"].startswith("bus:parcels."):
            raise GiveUp("that is no parcel")
        print(json.dumps({"handled": item["topic"], "payload": payload_of(item)}), flush=True)
        if item["topic"] == "bus:parcels.book":
            waybill.reply(item, output={"parcel": "p-1"})
        return "p-1"

    worker = Worker(waybill, "example", topic="bus:parcels.**")
    working = threading.Thread(target=worker.work, args=(handle, stop), kwargs={"wait_ms": 500})
    working.start()
    try:
        for _ in range(2):
            waybill.enqueue(f"{args.id}-note", "bus:parcels.note", {"order": args.id})
        # Defined again it changes nothing.
        waybill.until_answered("POST", "/v1/saga-definitions", BOOKING)
        waybill.start_saga(args.id, "parcel", {"order": args.id})
        saga = waybill.await_saga(args.id, within_s=60)
    finally:
        stop.set()
        working.join()
    print(json.dumps({"state": saga["state"], "output": saga["saga"]["steps"][0]["output"]}), flush=True)


if __name__ == "__main__":
    main()
