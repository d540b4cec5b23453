#!/usr/bin/env python3
"""Follows event streams over gRPC and writes each event once to a file, a line of JSON each.

    follow.py --selector stream:task.node.7 --into events.jsonl --cursor cursor.json [--url http://127.0.0.1:7070] ...

It begins with what is kept, goes on with what comes, and keeps the token of its last event in a file. It subscribes again behind that event when
the connection breaks, when the host goes away, and when it was told that it lagged. The file with the events says which of them are there, so what
comes a second time after a crash is dropped.
"""

import argparse
import json
import os
import sys
import time
from urllib.parse import urlsplit

import grpc
from google.protobuf import json_format
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from waybill.events.v1 import events_pb2, events_pb2_grpc

# The token is saved after so many events, or so much time: what came since comes again after a crash, and is dropped.
SAVE_EVENTS, SAVE_S = 100, 1.0
# Pauses between attempts while the host isn't there.
PAUSE_S, PAUSE_MAX_S = 0.2, 5.0
# Ends after which the same token goes on: the reader lagged, the host goes away or isn't there, too much is asked of it.
RESUMABLE = (
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
OPTIONS = [
    # A host that is gone without a word is noticed by this.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    # Events are of 256 KiB at most, unless the host is told otherwise.
    ("grpc.max_receive_message_length", 16 << 20),
]


class Ended(Exception):
    """The host can't go on from this token, or won't: a person has to decide."""


class Enough(Exception):
    """Everything that was asked for has come."""


class Events:
    """The file with the events: what was done for them, and so which of them were."""

    def __init__(self, path):
        self.latest = {}
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
        if event.seq <= self.latest.get(event.stream, 0):
            return
        told = json_format.MessageToDict(event, preserving_proto_field_name=True)
        # In protobuf's JSON a large number is a text; so is `seq` in the host's own.
        told.update(ts_ms=event.ts_ms)
        told.pop("resume_token", None)
        self.file.write(json.dumps(told).encode() + b"\n")
        self.file.flush()
        self.latest[event.stream] = event.seq

    def sync(self):
        os.fsync(self.file.fileno())


class Cursor:
    """Where to go on, in a file that is whole at any moment."""

    def __init__(self, path, selector, events):
        self.path, self.selector, self.events = path, selector, events
        self.token, self.unsaved, self.saved_at = None, 0, time.monotonic()
        try:
            with open(path, encoding="utf-8") as file:
                kept = json.load(file)
        except FileNotFoundError:
            return
        # A token means something to the selector that it came from, and to no other.
        if kept["selector"] != selector:
            raise Ended(f"{path} is of {kept['selector']}: take another file for {selector}")
        self.token = kept["token"]

    def move(self, token):
        self.token, self.unsaved = token, self.unsaved + 1
        if self.unsaved >= SAVE_EVENTS or time.monotonic() - self.saved_at >= SAVE_S:
            self.save()

    def save(self):
        if self.unsaved:
            # The token never says more than the events on disk.
            self.events.sync()
            draft = self.path + ".draft"
            with open(draft, "w", encoding="utf-8") as file:
                json.dump({"selector": self.selector, "token": self.token}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path)
        self.unsaved, self.saved_at = 0, time.monotonic()


def selector(text):
    """What `stream:A[,B]`, `prefix:P`, `node:UUID` and `type:TYPE[/ID]` are in a request."""
    kind, _, value = text.partition(":")
    if kind == "stream":
        return events_pb2.Selector(by_streams=events_pb2.Streams(names=value.split(",")))
    if kind == "prefix":
        return events_pb2.Selector(by_stream_prefix=value)
    if kind == "node":
        return events_pb2.Selector(by_node_uuid=value)
    if kind == "type":
        resource_type, _, beginning = value.partition("/")
        by = events_pb2.ByResource(resource_type=resource_type, resource_id_prefix=beginning)
        return events_pb2.Selector(by_resource_type=by)
    raise Ended(f"{text} is no selector")


def reason(error):
    """The host's error code and its words; of an error that isn't the host's, gRPC's own."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return f"{info.reason}: {error.details()}"
    return f"{error.code().name}: {error.details()}"


def follow(options):
    events = Events(options.into)
    cursor = Cursor(options.cursor, options.selector, events)
    selected = selector(options.selector)
    metadata = [("authorization", "Bearer " + options.token)] if options.token else None
    pause = PAUSE_S
    with grpc.insecure_channel(options.target, OPTIONS) as channel:
        service = events_pb2_grpc.EventsServiceStub(channel)
        while True:
            asked = events_pb2.SubscribeEventsRequest(selector=selected)
            if cursor.token:
                asked.resume_token = cursor.token
            why = "the subscription ended"
            try:
                for event in service.SubscribeEvents(asked, metadata=metadata):
                    events.take(event)
                    cursor.move(event.resume_token)
                    pause = PAUSE_S
                    if options.until is not None and sum(events.latest.values()) >= options.until:
                        raise Enough
            except Enough:
                cursor.save()
                return
            except grpc.RpcError as error:
                why = reason(error)
                if error.code() not in RESUMABLE:
                    cursor.save()
                    raise Ended(why) from error
            cursor.save()
            print(f"{why}; goes on behind {cursor.token or 'nothing'}", file=sys.stderr, flush=True)
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX_S)


def target(text):
    """Host and port of an address, with or without a scheme."""
    return urlsplit(text).netloc if "://" in text else text


def main():
    parser = argparse.ArgumentParser(description="Follows event streams over gRPC and writes each event once to a file.")
    parser.add_argument("--selector", required=True, help="stream:A[,B], prefix:P, node:UUID or type:TYPE[/ID]")
    parser.add_argument("--into", required=True, metavar="FILE", help="events, a line of JSON each; appended to")
    parser.add_argument("--cursor", required=True, metavar="FILE", help="where to go on")
    url = os.environ.get("WAYBILL_URL", "http://127.0.0.1:7070")
    parser.add_argument("--url", dest="target", type=target, default=target(url), help="of the host, in clear text")
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
