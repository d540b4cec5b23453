"""Uses the client that openapi-python-client makes of Waybill's OpenAPI document: every operation, with what its answer is made into.

Its first argument is the folder with the document and the generated package `waybill_client`, the second the host's address, the third a topic that
is refused. The host has a route `bus:work.**` to `external` with dedup, a relay `copies` of `task.**`, and a key for approvals. What needs a broker,
and rows that can't be read, it doesn't have: of these operations the problem is looked at.
"""

import importlib
import json
import re
import sys
import time
from pathlib import Path

folder, url, topic = sys.argv[1:]
sys.path.insert(0, folder)

from waybill_client import Client, models  # noqa: E402

client = Client(base_url=url)
document = json.loads(Path(folder, "openapi.json").read_text())
TAGS = {operation["operationId"]: operation["tags"][0] for item in document["paths"].values() for operation in item.values()}
asked = set()


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])| ", "_", name).lower()


def ask(operation, *place, body=None, **more):
    """One request, with a body of any JSON or of (type, members): its status, and what its answer was made into."""
    asked.add(operation)
    module = importlib.import_module(f"waybill_client.api.{snake(TAGS[operation])}.{snake(operation)}")
    if isinstance(body, tuple):
        body = getattr(models, body[0]).from_dict(body[1])
    if body is not None:
        more["body"] = body
    answer = module.sync_detailed(*place, client=client, **more)
    assert answer.parsed is not None, (operation, answer)
    return answer.status_code, answer.parsed


def done(operation, kind, *place, **more):
    """What the answer of a request that succeeds was made into: that type."""
    status, parsed = ask(operation, *place, **more)
    assert status < 300 and type(parsed).__name__ == kind, (operation, status, parsed)
    # Nothing came that the type doesn't have.
    assert not getattr(parsed, "additional_properties", None), (operation, parsed)
    return parsed


def refused(operation, code, *place, **more):
    """That a request is refused, with that code or, where none is named, any."""
    status, parsed = ask(operation, *place, **more)
    assert status >= 400 and type(parsed) is models.Problem and parsed.code == (code or parsed.code), (operation, status, parsed)


def until(holds, *question, **more):
    for _ in range(600):
        found = done(*question, **more)
        if holds(found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within 30 s: {question}: {found}")


def messages():
    done("enqueue", "Enqueued", body=("NewMessage", {"topic": topic, "id": "by-python", "payload": {"order": 1}}))
    assert done("showMessage", "Message", "by-python").topic == "http:" + topic
    later = {"topic": topic, "id": "later", "payload": 1, "not_before": "2100-01-01T00:00:00Z"}
    done("transact", "Transacted", body=("Transaction", {"statements": [{"query": "CREATE order:1"}], "messages": [later]}))
    done("rescheduleMessage", "Message", "later", body=("Reschedule", {"not_before": "2101-01-01T00:00:00Z"}))
    assert done("listMessages", "ListMessage").items
    assert done("showNeighbours", "Neighbours", "later").known is False
    assert done("countFacets", "Facets").counted > 0
    done("countDeadFacets", "Facets")
    done("cancelMessage", "Message", "later")
    refused("showMessage", "OUTBOX.NOT_FOUND", "nobody")


def outbox():
    for number in range(2):
        done("enqueue", "Enqueued", body=("NewMessage", {"topic": "bus:work.a", "id": f"w-{number}", "payload": 1}))
    claim = {"worker_id": "python", "wait_ms": 5000, "limit": 1}
    first = done("claimMessages", "Claimed", body=("Claim", claim)).items[0]
    settle = {"items": [{"id": first.id, "token": first.token, "result": "ack", "receipt": "r-1"}]}
    assert done("settleMessages", "Settled", body=("Settle", settle)).items[0].applied
    assert not done("settleMessages", "Settled", body=("Settle", settle)).items[0].applied
    question = {"target": first.target, "payload_sha": first.payload_sha256}
    assert done("checkDedup", "DedupChecked", body=("CheckDedup", question)).first.receipt.broker_ref == "r-1"
    assert done("outboxStats", "ListOutboxStats").items
    done("outboxBlocked", "ListBlocked")


def dead_letters():
    found = until(lambda found: found.items, "listDeadLetters", "ListDeadLetter")
    assert [type(item) for item in found.items] == [models.DeadLetterMessage], found
    assert done("groupDeadLetters", "ListDeadGroup").items[0].count == 1
    assert done("showDeadLetter", "DeadLetterMessage", "by-python").id == "by-python"
    done("quarantineDeadLetter", "DeadLetterMessage", "by-python", body=("Quarantine", {"note": "looked at"}))
    done("editDeadLetter", "Enqueued", "by-python", body=("EditMessage", {"payload": {"order": 2}}))
    # Without a body: there is nothing to say.
    done("replayDeadLetter", "ReplayedDeadLetterMessage", "by-python")
    refused("showDeadLetter", "DEAD.NOT_FOUND", "nobody")


def operations():
    dry = {"kind": "replay", "filter": "id=*", "dry_run": True}
    done("startOperation", "DryRun", body=("StartOperation", dry))
    # One act a second: with this many it is still running when it is cancelled.
    for number in range(60):
        done("enqueue", "Enqueued", body=("NewMessage", {"topic": topic, "id": f"many-{number}", "payload": 1}))
    until(lambda found: len(found.items) >= 60, "listDeadLetters", "ListDeadLetter")
    slow = {"kind": "quarantine", "filter": "id=*", "rate": 1, "reason": "looked at"}
    started = done("startOperation", "Operation", body=("StartOperation", slow))
    assert done("listOperations", "ListOperation").items[0].id == started.id
    done("showOperation", "Operation", started.id)
    done("cancelOperation", "Operation", started.id)


def idempotency():
    def begun(key):
        return {"key": key, "token": done("beginKey", "BegunKey", body=("BeginKey", {"key": key, "hash": "h"})).token}

    done("renewKey", "SettledKey", body=("RenewKey", begun("a")))
    one = begun("b")
    done("finishKey", "SettledKey", body=("FinishKey", {**one, "result": {"charged": 990}}))
    done("beginKey", "KeyOutcome", body=("BeginKey", {"key": "b", "hash": "h"}))
    refused("beginKey", "TX.IDEMPOTENT_MISMATCH", body=("BeginKey", {"key": "b", "hash": "other"}))
    done("failKey", "SettledKey", body=("FailKey", {**begun("c"), "error": "declined"}))
    done("releaseKey", "SettledKey", body=("ReleaseKey", begun("d")))
    assert done("showKeys", "ListIdempotencyKey").items
    assert done("showKeys", "IdempotencyKey", key="b").state == "succeeded"
    done("forgetKey", "IdempotencyKey", body=("ForgetKey", {"key": "a"}))


def streams():
    event = {"resource_type": "TASK", "resource_id": "t", "op": "CREATE", "schema_version": 1}
    done("appendEvents", "Appended", "task.a", body=("Append", {"events": [event, event]}))
    kept = {**event, "event_id": "e", "ts_ms": 1_700_000_000_123, "stream": "task.old", "seq": "1"}
    done("importStream", "StreamActed", "task.old", body=("ImportStream", {"events": [kept]}))
    assert len(done("readStream", "StreamEvents", "task.a").items) == 2
    assert done("readEvents", "ManyEvents", prefix="task.").items
    assert done("listStreams", "ListStream").items
    done("showStream", "StreamDetail", "task.a")
    done("streamStats", "StreamStats")
    done("ticket", "Ticket", body=("TicketRequest", {"selector": "stream:task.a"}))
    refused("subscribe", "EVENT.CURSOR", selector="stream:task.a", cursor="none")
    assert done("listRelays", "ListRelay").items[0].name == "copies"
    done("showRelay", "RelayDetail", "copies")
    done("listOvertaken", "ListOvertaken", "copies")
    done("pauseRelay", "Relay", "copies")
    done("seekRelay", "RelayPlace", "copies", body=("SeekRelay", {"stream": "task.a", "to": "earliest"}))
    done("resumeRelay", "Relay", "copies")
    done("purgeStream", "StreamActed", "task.old", body=("PurgeStream", {"dry_run": True}))
    done("deleteStream", "StreamActed", "task.old", dry_run=True)


def sagas():
    steps = [
        {"name": "book", "action": "bus:work.book"},
        {"name": "paid", "action": "wait:paid"},
        {"name": "release", "action": "wait:approval"},
    ]
    definition = {"name": "parcel", "version": 1, "steps": steps}
    done("defineSaga", "SagaDefined", body=definition)
    assert done("listSagaDefinitions", "ListSagaDefinition").items
    done("showSagaDefinition", "SagaDefinition", "parcel")
    for saga in ("s-1", "s-2", "s-3"):
        done("startSaga", "SagaStarted", body=("StartSaga", {"id": saga, "definition": "parcel", "input": {"order": 17}}))

    def waits_for(saga, what):
        until(lambda found: found.waiting_for == what, "showSaga", "Saga", saga)

    waits_for("s-1", "reply")
    done("replyToSaga", "SagaActed", "s-1", body=("StepReply", {"step": "book", "output": {"parcel": 1}}))
    waits_for("s-1", "signal:paid")
    done("signalSaga", "SagaActed", "s-1", "paid", body={"payment": "p-1"})
    waits_for("s-1", "approval")
    links = done("makeApprovalLinks", "ApprovalLinks", "s-1", body=("MakeApprovalLinks", {"by": "ann"}))
    token = links.approve.rsplit("/", 1)[1]
    done("showApproval", "Approval", token)
    done("decideApproval", "SagaActed", token)
    refused("approveSagaStep", "SAGA.NOT_WAITING", "s-1")
    refused("rejectSagaStep", "SAGA.NOT_WAITING", "s-1")
    assert done("showSaga", "Saga", "s-1", wait_ms=5000).state == "completed"
    done("pauseSaga", "SagaActed", "s-2")
    done("resumeSaga", "SagaActed", "s-2")
    refused("retrySaga", "SAGA.STATE", "s-2")
    done("skipSagaStep", "SagaActed", "s-2", body=("SagaSkipJson", {"step": "paid"}))
    done("cancelSaga", "SagaActed", "s-2")
    done("killSaga", "SagaActed", "s-3")
    refused("acceptSaga", "SAGA.ENDED", "s-3", body=("SagaAcceptJson", {"reason": "by hand"}))
    assert len(done("listSagas", "ListSaga").items) == 3


def the_rest():
    assert {item.name for item in done("listTransports", "ListTransport").items} >= {"http"}
    done("pauseTransport", "Transport", "http")
    done("resumeTransport", "Transport", "http")
    done("probeTransport", "Transport", "http")
    refused("provisionTransport", "PLUGIN.NO_PROVISIONING", "http", body=("Provision", {"apply": False}))
    assert done("listPlugins", "Plugins").items
    assert done("showPlugin", "PluginShown", "http").plugin.transport == "http"
    done("readPluginLog", "PluginLog", "http")
    done("reloadPlugin", "PluginChanged", "http")
    refused("rollBackPlugin", "PLUGIN.NO_PREVIOUS", "http")
    done("listInbox", "ListInboxMessage")
    done("inboxStats", "InboxStats")
    refused("showInbox", None, "nobody", "17")
    done("listSources", "ListSource")
    for operation in ("pauseSource", "resumeSource", "listFailedRows"):
        refused(operation, None, "nobody")
    refused("provisionSource", None, "nobody", body=("Provision", {"apply": False}))
    refused("replayFailedRows", None, "nobody", body=("ReplayRows", {"ids": ["1"]}))
    done("listQuarantine", "ListQuarantined")
    for operation in ("showQuarantined", "dropQuarantined", "restoreQuarantined"):
        refused(operation, None, "nobody")
    made = done("createToken", "CreatedToken", body=("NewToken", {"name": "ci", "roles": ["viewer"]}))
    assert made.token.startswith("wb_") and made.stored.name == "ci"
    assert "ci" in {token.name for token in done("listTokens", "ListToken").items}
    assert done("revokeToken", "Token", "ci").name == "ci"
    assert done("whoAmI", "WhoAmI").auth == "none"
    done("welcome", "Welcome")
    done("livez", "Liveness")
    done("readyz", "Readiness")
    done("errorPage", "ErrorPage", "OUTBOX.BUSY")
    assert done("showHistory", "History").step_ms == 10_000
    done("listChanges", "Changes")
    done("listAudit", "ListAuditEvent")
    done("showConfiguration", "ListSetting")
    done("reloadConfiguration", "ConfigReloaded", body=("ConfigReload", {"dry_run": True}))


for family in (messages, outbox, dead_letters, operations, idempotency, streams, sagas, the_rest):
    family()
# What isn't JSON, the client has as it came; a component it can't send.
for operation in ("metrics", "openapi"):
    ask(operation)
assert set(TAGS) - asked == {"uploadPlugin"}, set(TAGS) - asked
print("used")
