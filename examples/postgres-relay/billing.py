#!/usr/bin/env python3
"""Bills orders, once each: an inbox handler, and beside it a webhook. Python's standard library only.

    billing.py PORT FILE [--trouble N]      0 takes a free port; FILE is its SQLite database

    POST /handle    source document 5's JSON, from Waybill's inbox: a bill is written
    POST /webhook   a CloudEvent, from Waybill's relay: it is only noted
    GET  /counts    how many keys came to each path, and how many bills there are
    GET  /report    every call that came, and every bill, in order

A bill and the note of its Idempotency-Key are one transaction, so whatever is called twice is billed once: the second call is
answered 409. Every call is noted before anything else, also one in which this program dies. With `--trouble N` one message
in N is answered 500 at its first call before anything is done, and another one after it was billed.
"""

import argparse
import json
import sqlite3
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TABLES = """
CREATE TABLE IF NOT EXISTS calls (
  place INTEGER PRIMARY KEY, path TEXT, key TEXT, id TEXT, attempt INTEGER, maybe_handled INTEGER, at_ms INTEGER, status INTEGER, body TEXT);
CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS bills (place INTEGER PRIMARY KEY, order_id TEXT, customer TEXT, number INTEGER, cents INTEGER);
"""


class Books:
    """What this program knows. It survives a kill: everything is in the file."""

    def __init__(self, file, trouble):
        self.lock, self.trouble = threading.Lock(), trouble
        # The process may be killed, the machine isn't: syncs would show nothing.
        self.database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self.database.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;" + TABLES)

    def call(self, path, headers, body):
        """Notes a call, does what it asks for, notes the answer."""
        key = headers["idempotency-key"]
        event = json.loads(body)
        message = event["message_id"] if path == "/handle" else headers["ce-id"]
        maybe = headers.get("waybill-maybe-handled") == "true"
        with self.lock:
            earlier = self.database.execute("SELECT count(*) FROM calls WHERE key = ?", [key]).fetchone()[0]
            place = self.database.execute(
                "INSERT INTO calls (path, key, id, attempt, maybe_handled, at_ms, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
                [path, key, message, int(headers["waybill-attempt"]), maybe, time.time_ns() // 1_000_000, body],
            ).lastrowid
            status = self.bill(key, event["payload"], earlier) if path == "/handle" else 204
            self.database.execute("UPDATE calls SET status = ? WHERE place = ?", [status, place])
        return status

    def bill(self, key, order, earlier):
        # The same messages are in trouble in every run.
        trouble = zlib.crc32(key.encode()) % (2 * self.trouble) if self.trouble and not earlier else None
        if trouble == 0:
            return 500
        self.database.execute("BEGIN IMMEDIATE")
        try:
            if self.database.execute("INSERT OR IGNORE INTO notes VALUES (?)", [key]).rowcount == 0:
                self.database.execute("ROLLBACK")
                return 409
            self.database.execute(
                "INSERT INTO bills (order_id, customer, number, cents) VALUES (?, ?, ?, ?)",
                [order["order"], order["customer"], order["number"], order["cents"]],
            )
            self.database.execute("COMMIT")
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        return 500 if trouble == 1 else 204

    def report(self):
        with self.lock:
            return {
                "calls": self.rows("path, key, id, attempt, maybe_handled, at_ms, status, body", "calls"),
                "bills": self.rows("order_id, customer, number, cents", "bills"),
            }

    def counts(self):
        with self.lock:
            paths = self.database.execute("SELECT path, count(DISTINCT key) FROM calls GROUP BY path")
            return {"bills": self.database.execute("SELECT count(*) FROM bills").fetchone()[0], **dict(paths)}

    def rows(self, columns, table):
        names = columns.split(", ")
        found = self.database.execute(f"SELECT {columns} FROM {table} ORDER BY place")
        return [dict(zip(names, row)) for row in found]


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    books: Books

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path not in ("/handle", "/webhook"):
            return self.answer(404)
        try:
            status = self.books.call(self.path, self.headers, body)
        except (ValueError, KeyError, TypeError) as error:
            print(f"not a message: {error!r}: {body[:200]}", flush=True)
            status = 422
        self.answer(status)

    def do_GET(self):
        pages = {"/counts": self.books.counts, "/report": self.books.report}
        page = pages.get(self.path)
        self.answer(200, json.dumps(page()).encode()) if page else self.answer(404)

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        if status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            # Whoever asked is gone, killed perhaps, and will ask again.
            self.close_connection = True

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("port", type=int)
    parser.add_argument("file")
    parser.add_argument("--trouble", type=int, default=0, metavar="N", help="one message in N fails at its first call")
    given = parser.parse_args()
    Door.books = Books(given.file, given.trouble)
    server = Server(("127.0.0.1", given.port), Door)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
