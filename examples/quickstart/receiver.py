#!/usr/bin/env python3
"""Prints what Waybill delivers, and answers 204: `python3 receiver.py [port]`.

With `--fail N` the first N attempts of every message are answered 503, so that one sees retries. With `--refuse` every
message is answered 422, so that one sees dead letters, until `curl localhost:<port>/mend`.
"""

import argparse
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("port", nargs="?", type=int, default=9000)
arguments.add_argument("--fail", type=int, default=0, metavar="N", help="answer the first N attempts of a message with 503")
arguments.add_argument("--refuse", action="store_true", help="answer 422 until somebody gets /mend")
given = arguments.parse_args()
attempts = Counter()


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        message = self.headers["ce-id"]
        attempts[message] += 1
        status = 422 if given.refuse else 503 if attempts[message] <= given.fail else 204
        shown = {name: self.headers[f"waybill-{name}"] for name in ("tenant", "key", "attempt", "lease-epoch", "seq")}
        print(f"{status} {self.path} {message} {shown} {body}", flush=True)
        self.answer(status)

    def do_GET(self):
        if self.path == "/mend":
            given.refuse = False
            print("mended: messages are taken from now on", flush=True)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


print(f"receiving on http://127.0.0.1:{given.port}", flush=True)
ThreadingHTTPServer(("127.0.0.1", given.port), Receiver).serve_forever()
