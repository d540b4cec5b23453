//! Codes of messages, dead letters, and what operators act on.

codes! {
    DEAD_KIND = "DEAD.KIND" => answered(409, "The dead letter is of another kind", "Do what `detail` says.");
    DEAD_NOT_FOUND = "DEAD.NOT_FOUND" => answered(404, "There is no such dead letter", "Check the id and the tenant.");
    EXTERNAL_FAILED = "EXTERNAL.FAILED";
    FUTURE_EVENT = "FUTURE_EVENT" => answered(400, "The event lies in the future",
        "Check the sender's clock; occurred_at may be one minute ahead.");
    INVALID_OUTBOX = "INVALID_OUTBOX" => answered(400, "The message has no event type", "Give event_type.");
    OPERATION_NOT_FOUND = "OPERATION.NOT_FOUND" => answered(404, "There is no such operation", "Check the id.");
    OPERATION_SET_GREW = "OPERATION.SET_GREW" => answered(409, "More match than were planned",
        "Plan it again, and look at what came.");
    OUTBOX_BUSY = "OUTBOX.BUSY" => retryable(429, "Too much is waiting", "Try again after `retry_after_ms`.");
    OUTBOX_DEDUP_HELD = "OUTBOX.DEDUP_HELD";
    OUTBOX_MALFORMED = "OUTBOX.MALFORMED";
    OUTBOX_NOT_FOUND = "OUTBOX.NOT_FOUND" => answered(404, "There is no such thing", "Check the id and the tenant.");
    OUTBOX_NO_ROUTE = "OUTBOX.NO_ROUTE" => answered(400, "No route takes the topic",
        "Add a [[route]] whose match covers it.");
    OUTBOX_PAUSED = "OUTBOX.PAUSED";
    OUTBOX_PAYLOAD_TOO_LARGE = "OUTBOX.PAYLOAD_TOO_LARGE" => answered(413, "The payload is too large",
        "Send a reference, or raise outbox.max_payload_bytes.");
    OUTBOX_STATE = "OUTBOX.STATE" => answered(409, "Its state doesn't allow this", "Do what `detail` says.");
    OUTBOX_TOO_MANY = "OUTBOX.TOO_MANY" => answered(413, "Too many messages in one request", "Split the request.");
    OUTBOX_TOPIC = "OUTBOX.TOPIC" => answered(400, "The topic isn't usable",
        "Write http:<url>, https://..., bus:<subject> or custom:<name>.");
    OUTBOX_UNCLAIMED = "OUTBOX.UNCLAIMED";
    QUARANTINE_NOT_FOUND = "QUARANTINE.NOT_FOUND" => answered(404, "There is no such row in quarantine", "Check the id.");
    SUSPECTED_POISON = "SUSPECTED_POISON";
    TRANSPORT_NOT_FOUND = "TRANSPORT.NOT_FOUND" => answered(404, "There is no such transport",
        "Check the name, or configure it.");
}
