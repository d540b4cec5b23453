//! Codes of what sources bring and handlers answer.

codes! {
    DUPLICATE_MESSAGE = "DUPLICATE_MESSAGE";
    HANDLER_BAD_OUTPUT = "HANDLER.BAD_OUTPUT";
    INBOX_ID_REUSED = "INBOX.ID_REUSED";
    INBOX_MISSING_ID = "INBOX.MISSING_ID";
    INBOX_NOT_FOUND = "INBOX.NOT_FOUND" => answered(404, "The inbox has no such thing",
        "Check consumer, id and tenant; `waybill source list` shows the consumers.");
    INBOX_NO_CONSUMER = "INBOX.NO_CONSUMER";
    INBOX_NO_SAGA = "INBOX.NO_SAGA";
    INBOX_OTHER_HOME = "INBOX.OTHER_HOME";
    INBOX_PAYLOAD_TOO_LARGE = "INBOX.PAYLOAD_TOO_LARGE";
    INBOX_TENANT = "INBOX.TENANT";
    INVALID_TIMESTAMP = "INVALID_TIMESTAMP";
}
