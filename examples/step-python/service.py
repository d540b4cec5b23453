"""The stock service that the steps talk to: `python3 service.py [PORT]`. Standard library only.

Goods `gone` are refused, `busy` is told to come back once a key; every hold and release is written to stdout.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

holds = {}
told_to_wait = set()


class Stock(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, {"sku": self.path.rsplit("/", 1)[-1], "cents": 1250})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        key = self.headers["idempotency-key"]
        if self.path == "/holds":
            if body["sku"] == "gone":
                return self.answer(422, {"why": "none left"})
            if body["sku"] == "busy" and key not in told_to_wait:
                told_to_wait.add(key)
                return self.answer(429, {"why": "come back"}, [("retry-after", "1")])
            known = key in holds
            holds.setdefault(key, {"hold": key, **body})
            print("known" if known else "held", json.dumps(holds[key]), flush=True)
            return self.answer(200 if known else 201, holds[key])
        released = holds.pop(body["hold"], None)
        print("released" if released else "nothing to release", body["hold"], flush=True)
        return self.answer(200, {"released": released is not None})

    def answer(self, status, body, headers=()):
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in [("content-type", "application/json"), ("content-length", str(len(data))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7500), Stock)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
