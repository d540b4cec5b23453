//! Codes of sagas.

codes! {
    SAGA_APPROVAL_EXPIRED = "SAGA.APPROVAL_EXPIRED" => answered(409, "The approval came too late",
        "Start the saga again if it is still wanted.");
    SAGA_BUSY = "SAGA.BUSY" => retryable(429, "Too many sagas are running", "Try again after `retry_after_ms`.");
    SAGA_CANCELLED = "SAGA.CANCELLED";
    SAGA_CHILD = "SAGA.CHILD";
    SAGA_DATA_TOO_LARGE = "SAGA.DATA_TOO_LARGE" => answered(413, "The data is too large",
        "Keep large data elsewhere and pass a reference.");
    SAGA_DEADLINE = "SAGA.DEADLINE";
    SAGA_DEFINITION = "SAGA.DEFINITION" => answered(400, "The definition isn't usable",
        "Correct what `problems` lists; a dry run checks without storing.");
    SAGA_ENDED = "SAGA.ENDED" => answered(409, "The saga has ended",
        "Look at how it ended; start a new one if the work is still wanted.");
    SAGA_INPUT_TOO_LARGE = "SAGA.INPUT_TOO_LARGE" => answered(413, "The input is too large",
        "Keep large data elsewhere and pass a reference.");
    SAGA_LINK_EXPIRED = "SAGA.LINK_EXPIRED" => answered(410, "The link's time is over",
        "Ask whoever sent it for another one.");
    SAGA_LINK_INVALID = "SAGA.LINK_INVALID" => answered(403, "The link isn't one of this host",
        "Use the whole link as it was sent, or ask for another one.");
    SAGA_MAPPING = "SAGA.MAPPING";
    SAGA_NOT_FOUND = "SAGA.NOT_FOUND" => answered(404, "There is no such saga", "Check the id and the tenant.");
    SAGA_NOT_ROOT = "SAGA.NOT_ROOT" => answered(409, "This concerns a saga with all its sub-sagas",
        "Name the root; `detail` has its id.");
    SAGA_NOT_WAITING = "SAGA.NOT_WAITING" => answered(409, "No step waits for this",
        "Look at the saga: it may have been decided already, or not be there yet.");
    SAGA_NO_APPROVAL_KEY = "SAGA.NO_APPROVAL_KEY" => answered(409, "This host makes no links for approvals",
        "Set `approval_key` in [saga] to a secret of at least 32 bytes, e.g. \"env:WAYBILL_APPROVAL_KEY\", and restart the host.");
    SAGA_NO_DEFINITION = "SAGA.NO_DEFINITION" => answered(404, "There is no such saga definition",
        "Define it first, or check the name.");
    SAGA_NO_STEP = "SAGA.NO_STEP" => answered(404, "The saga has no such step", "Use one of the names in `detail`.");
    SAGA_NO_STREAMS = "SAGA.NO_STREAMS";
    SAGA_NO_VERSION = "SAGA.NO_VERSION" => answered(404, "The definition has no such version",
        "Name an existing version, or none for the latest.");
    SAGA_OUTPUT_TOO_LARGE = "SAGA.OUTPUT_TOO_LARGE";
    SAGA_REJECTED = "SAGA.REJECTED";
    SAGA_REPLY = "SAGA.REPLY";
    SAGA_SIGNALS_FULL = "SAGA.SIGNALS_FULL" => retryable(429, "Too many signals wait",
        "Try again when the saga has got on; check the signal's name.");
    SAGA_STATE = "SAGA.STATE" => answered(409, "The saga's state doesn't allow this", "Do what `detail` says.");
    SAGA_TIMEOUT = "SAGA.TIMEOUT";
    SAGA_TREE_TOO_LARGE = "SAGA.TREE_TOO_LARGE";
    SAGA_UNKNOWN_RESULT = "SAGA.UNKNOWN_RESULT";
    SAGA_VERSION_TAKEN = "SAGA.VERSION_TAKEN" => answered(409, "The version exists with other content",
        "Give the changed definition a higher version.");
}
