//! Codes of requests about sagas, as answers of the API.

use crate::codes::{Code, again, no};

/// What a request about a saga may be refused with, beside the codes that every request has.
pub const SAGA_CODES: [Code; 18] = [
    no(
        "SAGA.DEFINITION",
        400,
        "The definition isn't usable",
        "Correct what `problems` lists; a dry run checks without storing.",
    ),
    no(
        "SAGA.LINK_INVALID",
        403,
        "The link isn't one of this host",
        "Use the whole link as it was sent, or ask for another one.",
    ),
    no("SAGA.NO_DEFINITION", 404, "There is no such saga definition", "Define it first, or check the name."),
    no(
        "SAGA.NO_VERSION",
        404,
        "The definition has no such version",
        "Name an existing version, or none for the latest.",
    ),
    no("SAGA.NOT_FOUND", 404, "There is no such saga", "Check the id and the tenant."),
    no("SAGA.NO_STEP", 404, "The saga has no such step", "Use one of the names in `detail`."),
    no(
        "SAGA.VERSION_TAKEN",
        409,
        "The version exists with other content",
        "Give the changed definition a higher version.",
    ),
    no("SAGA.ENDED", 409, "The saga has ended", "Look at how it ended; start a new one if the work is still wanted."),
    no("SAGA.STATE", 409, "The saga's state doesn't allow this", "Do what `detail` says."),
    no(
        "SAGA.NOT_WAITING",
        409,
        "No step waits for this",
        "Look at the saga: it may have been decided already, or not be there yet.",
    ),
    no("SAGA.APPROVAL_EXPIRED", 409, "The approval came too late", "Start the saga again if it is still wanted."),
    no(
        "SAGA.NO_APPROVAL_KEY",
        409,
        "This host makes no links for approvals",
        "Set `approval_key` in [saga] to a secret of at least 32 bytes, e.g. \"env:WAYBILL_APPROVAL_KEY\", and restart the host.",
    ),
    no("SAGA.NOT_ROOT", 409, "This concerns a saga with all its sub-sagas", "Name the root; `detail` has its id."),
    no("SAGA.LINK_EXPIRED", 410, "The link's time is over", "Ask whoever sent it for another one."),
    no("SAGA.INPUT_TOO_LARGE", 413, "The input is too large", "Keep large data elsewhere and pass a reference."),
    no("SAGA.DATA_TOO_LARGE", 413, "The data is too large", "Keep large data elsewhere and pass a reference."),
    again("SAGA.BUSY", 429, "Too many sagas are running", "Try again after `retry_after_ms`."),
    again(
        "SAGA.SIGNALS_FULL",
        429,
        "Too many signals wait",
        "Try again when the saga has got on; check the signal's name.",
    ),
];
