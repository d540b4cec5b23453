//! Codes of event streams and their relays.

codes! {
    EVENT_CURSOR = "EVENT.CURSOR" => answered(400, "The cursor isn't one of this subscription",
        "Use the id of the last event of the same selector and tenant, or begin without a cursor.");
    EVENT_CURSOR_AHEAD = "EVENT.CURSOR_AHEAD" => answered(409, "The cursor is behind the stream's end",
        "Check which host and stream it came from; begin with a number up to `last`.");
    EVENT_CURSOR_EXPIRED = "EVENT.CURSOR_EXPIRED" => answered(410, "The next events aren't kept any more",
        "Take the present state from elsewhere, and begin again without a cursor.");
    EVENT_ID_TAKEN = "EVENT.ID_TAKEN" => answered(409, "The event's id belongs to another event",
        "Choose another id, or send exactly the same event again.");
    EVENT_LAGGED = "EVENT.LAGGED";
    EVENT_PAYLOAD_TOO_LARGE = "EVENT.PAYLOAD_TOO_LARGE" => answered(413, "The event's payload is too large",
        "Send a reference, or raise events.max_payload_bytes.");
    EVENT_STALLED = "EVENT.STALLED";
    RELAY_NOT_FOUND = "RELAY.NOT_FOUND" => answered(404, "There is no such relay",
        "`waybill relay list` shows the names; relays are sections [relay.NAME] of the configuration.");
    RELAY_OVERTAKEN = "RELAY.OVERTAKEN";
    RELAY_SEEK = "RELAY.SEEK" => answered(409, "The relay can't go there",
        "Name a stream that the relay takes, and a number within what is kept of it.");
    SCHEMA_VERSION = "SCHEMA.VERSION" => answered(400, "The event's schema_version isn't taken",
        "Send a version that the stream's `schema_versions` allows, from 1.");
    STREAM_EXPECTED_SEQ = "STREAM.EXPECTED_SEQ" => answered(409, "The stream ends elsewhere",
        "Read what was appended since, decide anew, and expect `actual`.");
    STREAM_FULL = "STREAM.FULL" => answered(409, "The stream has no numbers left",
        "Append to another stream.");
    STREAM_NOT_EMPTY = "STREAM.NOT_EMPTY" => answered(409, "The stream isn't empty",
        "Import into a stream that never had an event, or go on behind the part that was imported.");
    STREAM_NOT_FOUND = "STREAM.NOT_FOUND" => answered(404, "There is no such stream",
        "Check name and tenant; a stream begins with its first event.");
    STREAM_READ_ONLY = "STREAM.READ_ONLY" => answered(403, "The stream is only read",
        "Append to a stream whose name doesn't begin with `saga.`.");
}
