#!/usr/bin/env python3
"""Stands in for the store that worker.py writes to: a POST is a memory, answered with its id.

    store.py PORT        0 takes a free one; the first line on stdout says where it listens

What a payload says is done to it: {"fail": 2} answers 503 twice, {"refuse": true} answers 422, {"slow_s": 3} waits the
first time, {"say": "null"} answers 200 with that text, {"noise": "x"} answers that without any HTTP, {"cut": true} ends
in the middle of its answer. Every memory it takes is a line of JSON on stdout.
"""

import json
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

seen, memories, lock = Counter(), {}, threading.Lock()


class Store(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        message, asked = self.headers["idempotency-key"], json.loads(body)
        with lock:
            seen[message] += 1
            number = seen[message]
        if asked.get("slow_s") and number == 1:
            time.sleep(asked["slow_s"])
        if "noise" in asked:
            return self.wfile.write(asked["noise"].encode())
        if "say" in asked:
            return self.answer(200, asked["say"].encode())
        if asked.get("cut"):
            return self.answer(200, b'{"memory_id": "mem', missing=10)
        if asked.get("refuse"):
            return self.answer(422, {"error": "refused"})
        if number <= asked.get("fail", 0):
            return self.answer(503, {"error": "not now"})
        with lock:
            memory = memories.setdefault(message, f"mem-{len(memories) + 1}")
            print(json.dumps({"id": message, "memory_id": memory, "number": number, "payload": asked}), flush=True)
        self.answer(200, {"memory_id": memory})

    def answer(self, status, body, missing=0):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text) + missing))
        self.end_headers()
        try:
            self.wfile.write(text)
        except BrokenPipeError:
            pass

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Store)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
