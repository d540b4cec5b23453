#!/usr/bin/env python3
"""Follows event streams and writes each event once to a file, a line of JSON each. Standard library only.

    follow.py --selector stream:task.node.7 --into events.jsonl --cursor cursor.json [--url http://127.0.0.1:7070] ...

It begins with what is kept, goes on with what comes, and keeps its cursor in a file. It subscribes again behind the last event that it has
when the connection breaks, when the host goes away, and when it was told that it lagged. What it did for an event stands in the file with the
events, so after a crash that file says which of them come a second time, and they are dropped.
"""

import argparse
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

# A host says something every 15 seconds.
SILENCE_S = 45
# The cursor is saved after so many events, or so much time: what came since comes again after a crash, and is dropped.
SAVE_EVENTS, SAVE_S = 100, 1.0
# Pauses between attempts while the host isn't there.
PAUSE_S, PAUSE_MAX_S = 0.2, 5.0
# Ends after which the same cursor goes on.
RESUMABLE = ("EVENT.LAGGED", "EVENT.STALLED", "PROVIDER.UNAVAILABLE")
# Answers to a request that may be made again.
PASSING = (408, 425, 429, 500, 502, 503, 504)
BROKEN = (OSError, http.client.HTTPException)


class Ended(Exception):
    """The host can't go on from this cursor, or won't: a person has to decide."""

    def __init__(self, code, detail):
        super().__init__(f"{code}: {detail}")


class Resumed(Exception):
    """The subscription ended, and the same again goes on."""


class Enough(Exception):
    """Everything that was asked for has come."""


class Events:
    """The file with the events: what was done for them, and so which of them were."""

    def __init__(self, path):
        self.latest, self.dropped = {}, 0
        self.file = open(path, "a+b")
        self.file.seek(0)
        whole = 0
        for line in self.file:
            # What a crash cut off is written again.
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            event = json.loads(line)
            self.latest[event["stream"]] = int(event["seq"])
        self.file.truncate(whole)

    def take(self, event):
        """Writes an event, unless it is there: within a stream events come in the order of their numbers."""
        stream, seq = event["stream"], int(event["seq"])
        if seq <= self.latest.get(stream, 0):
            self.dropped += 1
            return
        self.file.write(json.dumps(event).encode() + b"\n")
        self.file.flush()
        self.latest[stream] = seq

    def sync(self):
        os.fsync(self.file.fileno())


class Cursor:
    """Where to go on, in a file that is whole at any moment."""

    def __init__(self, path, selector, events):
        self.path, self.selector, self.events = path, selector, events
        self.value, self.unsaved, self.saved_at = None, 0, time.monotonic()
        try:
            with open(path, encoding="utf-8") as file:
                kept = json.load(file)
        except FileNotFoundError:
            return
        # A cursor means something to the selector that it came from, and to no other.
        if kept["selector"] != selector:
            raise Ended("CURSOR", f"{path} is of {kept['selector']}: take another file for {selector}")
        self.value = kept["cursor"]

    def move(self, value):
        self.value, self.unsaved = value, self.unsaved + 1
        if self.unsaved >= SAVE_EVENTS or time.monotonic() - self.saved_at >= SAVE_S:
            self.save()

    def save(self):
        if self.unsaved:
            # The cursor never says more than the events on disk.
            self.events.sync()
            draft = self.path + ".draft"
            with open(draft, "w", encoding="utf-8") as file:
                json.dump({"selector": self.selector, "cursor": self.value}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path)
        self.unsaved, self.saved_at = 0, time.monotonic()


def subscribe(options, cursor):
    """The answer of the host, a line at a time."""
    query = urllib.parse.urlencode({"selector": options.selector})
    headers = {"accept": "text/event-stream"}
    if options.token:
        headers["authorization"] = "Bearer " + options.token
    if cursor:
        headers["last-event-id"] = cursor
    request = urllib.request.Request(f"{options.url.rstrip('/')}/v1/subscribe?{query}", headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=SILENCE_S)
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        if error.code in PASSING:
            raise Resumed(f"{error.code} {text}") from error
        problem = json.loads(text) if text.startswith("{") else {}
        raise Ended(problem.get("code", f"HTTP {error.code}"), problem.get("detail", text)) from error


def read(answer, events, cursor, on_line):
    """Takes what the host says until the subscription ends."""
    name, identity, data = None, None, None
    for line in answer:
        if not line.endswith(b"\n"):
            break
        field, _, value = line.decode().rstrip("\r\n").partition(": ")
        if field == "id":
            identity = value
        elif field == "event":
            name = value
        elif field == "data":
            data = value
        elif not field:
            if name == "error":
                problem = json.loads(data)
                if problem["code"] in RESUMABLE:
                    raise Resumed(f"{problem['code']}: {problem['detail']}")
                raise Ended(problem["code"], problem["detail"])
            if data is not None:
                events.take(json.loads(data))
            if identity is not None:
                # Without an event: some were left out that this token may not read.
                cursor.move(identity)
            on_line()
            name, identity, data = None, None, None
    raise Resumed("the connection ended")


def follow(options):
    events = Events(options.into)
    cursor = Cursor(options.cursor, options.selector, events)
    pause = PAUSE_S

    def heard():
        nonlocal pause
        pause = PAUSE_S
        if options.until is not None and sum(events.latest.values()) >= options.until:
            raise Enough

    while True:
        try:
            with subscribe(options, cursor.value) as answer:
                read(answer, events, cursor, heard)
        except Enough:
            cursor.save()
            return
        except (Resumed, *BROKEN) as why:
            cursor.save()
            print(f"{why}; goes on behind {cursor.value or 'nothing'}", file=sys.stderr, flush=True)
        time.sleep(pause)
        pause = min(pause * 2, PAUSE_MAX_S)


def main():
    parser = argparse.ArgumentParser(description="Follows event streams and writes each event once to a file.")
    parser.add_argument("--selector", required=True, help="stream:A[,B], prefix:P, node:UUID or type:TYPE[/ID]")
    parser.add_argument("--into", required=True, metavar="FILE", help="events, a line of JSON each; appended to")
    parser.add_argument("--cursor", required=True, metavar="FILE", help="where to go on")
    parser.add_argument("--url", default=os.environ.get("WAYBILL_URL", "http://127.0.0.1:7070"))
    parser.add_argument("--token", default=os.environ.get("WAYBILL_TOKEN"))
    parser.add_argument("--until", type=int, metavar="N", help="end when the streams' last numbers add up to this")
    try:
        follow(parser.parse_args())
    except Ended as end:
        print(f"can't go on: {end}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
