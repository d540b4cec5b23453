"""The shop that the saga's steps talk to: `python3 shop.py [PORT]`. Standard library only; everything is in memory.

    POST /holds          {"order", "sku", "count"}       201 {"hold", "cents"}     goods leave the shelf
    POST /charges        {"order", "card", "cents"}      201 {"charge"}            money comes in
    POST /shipments      {"order", "address"}            201 {"tracking"}          a parcel is booked
    POST /confirmations  {"order", "customer", ...}      201 {"confirmed"}         the order is confirmed
    POST /<one of these>/undo  {"order"}                 200 {"undone"}            what was done is taken back
    GET  /accounts       shelf, money, parcels and confirmations as they are now
    GET  /log            every request with what it changed, in order
    POST /mend           from now on nothing is stuck any more

It does what a service has to do to be used by a saga: a request with an Idempotency-Key that it has seen is answered as before
and changes nothing; undoing what was never done is a success, and is remembered, so that it can't be done afterwards.

A word in front of the sku, card, address or customer makes trouble, to see what the saga makes of it:

    refused   no, for good (422)
    busy      not now (503), twice for each key; then yes
    lost      done, but the first answer never arrives
    mute      done, but no answer ever arrives
    stuck     done, but it can't be undone (422) until POST /mend
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = ("refused", "busy", "lost", "mute", "stuck")
# What each kind of request is about: the field that may hold a word of trouble.
FIELDS = {"holds": "sku", "charges": "card", "shipments": "address", "confirmations": "customer"}
CENTS = {"tea": 430, "coffee": 890, "cocoa": 620}
ANSWERS = {"holds": "hold", "charges": "charge", "shipments": "tracking", "confirmations": "confirmed"}


class Refused(Exception):
    """An answer that says no."""

    def __init__(self, status, why):
        super().__init__(why)
        self.status = status


class Lost(Exception):
    """It was done, and the answer doesn't arrive."""


class Shop:
    def __init__(self):
        self.lock = threading.Lock()
        self.shelf = {sku: 1000 for sku in CENTS}
        self.cents, self.parcels, self.confirmed = 0, 0, 0
        self.answers = {}  # by idempotency key
        self.done = {}  # (kind, order): what was done, once for each key
        self.undone = set()
        self.tries = {}  # by idempotency key
        self.mended = False
        self.log = []

    def request(self, kind, undo, key, body):
        """One request; what became of it goes to the log whatever it is."""
        entry = {"order": body["order"], "kind": kind, "undo": undo, "key": key, "changed": 0, "status": 0}
        with self.lock:
            self.tries[key] = self.tries.get(key, 0) + 1
            try:
                answer = self.undo(kind, key, body["order"], entry) if undo else self.do(kind, key, body, entry)
                entry["status"] = 200 if undo else 201
                return answer
            except Refused as refused:
                entry["status"] = refused.status
                raise
            finally:
                self.log.append(entry)
                what = f"{kind}/undo" if undo else kind
                done = "changed the accounts" if entry["changed"] else "changed nothing"
                print(entry["order"], what, entry["status"] or "no answer", done, key, flush=True)

    def do(self, kind, key, body, entry):
        word, what = trouble(body[FIELDS[kind]])
        if key not in self.answers:
            if (kind, body["order"]) in self.undone:
                raise Refused(410, "it was undone before it was done")
            if word == "refused":
                raise Refused(422, f"{what}: refused")
            if word == "busy" and self.tries[key] <= 2:
                raise Refused(503, "busy, come back")
            self.change(kind, body, what, 1)
            entry["changed"] = 1
            self.done.setdefault((kind, body["order"]), []).append((body, what, word))
            answer = {ANSWERS[kind]: f"{kind[:-1]}-{len(self.answers) + 1}"}
            if kind == "holds":
                answer["cents"] = CENTS[what] * body["count"]
            self.answers[key] = answer
        if word == "mute" or word == "lost" and self.tries[key] == 1:
            raise Lost()
        return self.answers[key]

    def undo(self, kind, key, order, entry):
        done = self.done.get((kind, order), [])
        word = done[0][2] if done else None
        if word == "stuck" and not self.mended:
            raise Refused(422, "it can't be undone: somebody has to look at it")
        if word == "busy" and self.tries[key] <= 2:
            raise Refused(503, "busy, come back")
        if (kind, order) not in self.undone:
            self.undone.add((kind, order))
            for body, what, _ in done:
                self.change(kind, body, what, -1)
                entry["changed"] += 1
        if word == "lost" and self.tries[key] == 1:
            raise Lost()
        return {"undone": len(done)}

    def change(self, kind, body, what, times):
        if kind == "holds":
            if times > 0 and self.shelf.get(what, 0) < body["count"]:
                raise Refused(422, f"only {self.shelf.get(what, 0)} {what} left")
            self.shelf[what] -= times * body["count"]
        elif kind == "charges":
            self.cents += times * body["cents"]
        elif kind == "shipments":
            self.parcels += times
        else:
            self.confirmed += times

    def accounts(self):
        return {"shelf": self.shelf, "cents": self.cents, "parcels": self.parcels, "confirmed": self.confirmed}


def trouble(text):
    """The word in front, if it is one of trouble, and the rest."""
    word, _, rest = text.partition(" ")
    return (word, rest) if word in WORDS and rest else (None, text)


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shop = Shop()

    def do_GET(self):
        with self.shop.lock:
            known = {"/accounts": self.shop.accounts(), "/log": self.shop.log}
            self.answer(200, known[self.path]) if self.path in known else self.answer(404, {"why": "no such page"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/mend":
            self.shop.mended = True
            return self.answer(200, {"mended": True})
        kind, _, undo = self.path.strip("/").partition("/")
        if kind not in FIELDS or undo not in ("", "undo"):
            return self.answer(404, {"why": "no such page"})
        try:
            asked = json.loads(body)
            # A compensation by an `http:` step holds the input of what it undoes, and its output.
            asked = asked.get("input", asked)
            self.answer(200 if undo else 201, self.shop.request(kind, bool(undo), self.headers["idempotency-key"], asked))
        except Refused as refused:
            self.answer(refused.status, {"why": str(refused)})
        except Lost:
            self.close_connection = True
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.answer(400, {"why": f"not a request of this kind: {error!r}"})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except ConnectionError:
            # Whoever asked is gone, killed perhaps, and will ask again.
            self.close_connection = True

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    # Many orders come at once.
    request_queue_size = 256

    def handle_error(self, request, client_address):
        # Whoever asked is gone, killed perhaps, and will ask again.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7500), Door)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
