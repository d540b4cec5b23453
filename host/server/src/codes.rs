//! The one table from error code to HTTP status, served at `/errors/{code}` and the source of `docs/errors/`.

pub use crate::plugin_codes::PLUGIN_CODES;
pub use crate::saga_codes::SAGA_CODES;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an error code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Stable code.
    pub code: &'static str,
    /// HTTP status it is answered with.
    pub status: u16,
    /// The same for every occurrence.
    pub title: &'static str,
    /// The same request may succeed later.
    pub retryable: bool,
    /// What to do.
    pub fix: &'static str,
}

impl Code {
    /// Address of its page: relative, so that it works on every host.
    pub fn uri(&self) -> String {
        format!("/errors/{}", self.code)
    }
}

/// An error code as served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorPage {
    /// Stable code.
    pub code: String,
    /// HTTP status it is answered with.
    pub status: u16,
    /// The same for every occurrence.
    pub title: String,
    /// The same request may succeed later.
    pub retryable: bool,
    /// What to do.
    pub fix: String,
}

impl From<&Code> for ErrorPage {
    fn from(code: &Code) -> Self {
        Self {
            code: code.code.to_owned(),
            status: code.status,
            title: code.title.to_owned(),
            retryable: code.retryable,
            fix: code.fix.to_owned(),
        }
    }
}

pub(crate) const fn no(code: &'static str, status: u16, title: &'static str, fix: &'static str) -> Code {
    Code { code, status, title, retryable: false, fix }
}

pub(crate) const fn again(code: &'static str, status: u16, title: &'static str, fix: &'static str) -> Code {
    Code { code, status, title, retryable: true, fix }
}

/// What isn't in the table: a defect, answered without details.
pub const INTERNAL: Code = again(
    "UNKNOWN.INTERNAL",
    500,
    "Something went wrong in the host",
    "Look for the request_id in the host's log. Enqueue with an id of your own, then sending again is safe.",
);

/// Every code an HTTP answer may carry, beside [`PLUGIN_CODES`] and [`SAGA_CODES`].
pub const CODES: [Code; 48] = [
    no("SCHEMA.JSON", 400, "The body isn't JSON", "Correct the text at the line and column given."),
    no(
        "SCHEMA.VALIDATION_FAILED",
        400,
        "The request isn't usable",
        "Correct what `path` and `detail` name; /openapi.json has the shapes.",
    ),
    no("SCHEMA.UNSUPPORTED", 400, "This part of the request isn't supported", "Leave out what `path` names."),
    no("INVALID_OUTBOX", 400, "The message has no event type", "Give event_type."),
    no(
        "FUTURE_EVENT",
        400,
        "The event lies in the future",
        "Check the sender's clock; occurred_at may be one minute ahead.",
    ),
    no("OUTBOX.TOPIC", 400, "The topic isn't usable", "Write http:<url>, https://..., bus:<subject> or custom:<name>."),
    no("OUTBOX.NO_ROUTE", 400, "No route takes the topic", "Add a [[route]] whose match covers it."),
    no(
        "STORAGE.STATEMENT",
        400,
        "A statement of the transaction failed",
        "Correct the SurrealQL; nothing was committed.",
    ),
    no(
        "PLUGIN.NO_PROVISIONING",
        400,
        "The transport's plugin has nothing to provision",
        "Create what is missing at the peer by hand.",
    ),
    no(
        "TX.IDEMPOTENCY_KEY",
        400,
        "The request needs a usable Idempotency-Key",
        "Send one Idempotency-Key header of up to 255 visible ASCII characters, new for every operation.",
    ),
    no(
        "AUTH.REQUIRED",
        401,
        "A valid token is needed",
        "Send `authorization: Bearer <token>`; see [[auth.token]] in the configuration.",
    ),
    no("AUTH.ROLE", 403, "The token's roles don't allow this", "Use a token with the role that `detail` names."),
    no("AUTH.TENANT", 403, "The token isn't for this tenant", "Name a tenant of the token, or use another token."),
    no(
        "AUTH.TABLE",
        403,
        "The statement touches Waybill's own tables",
        "Use the API for messages, and tables of your own.",
    ),
    no(
        "STORAGE.SHARED",
        403,
        "Statements aren't run on a shared store",
        "Write your rows to the database yourself, with fn::waybill::enqueue in the same transaction.",
    ),
    no(
        "AUTH.ORIGIN",
        403,
        "A browser page that isn't the host's own asked",
        "Call the API from a program, or configure [[auth.token]].",
    ),
    no(
        "AUTH.PROXY",
        403,
        "The request came through a proxy",
        "Address the host directly, or configure [[auth.token]].",
    ),
    no("OUTBOX.NOT_FOUND", 404, "There is no such thing", "Check the id and the tenant."),
    no("HTTP.NOT_FOUND", 404, "There is no such address", "/openapi.json lists the addresses."),
    no("HTTP.METHOD", 405, "The address doesn't take this method", "Use a method of the `allow` header."),
    again("HTTP.SLOW_BODY", 408, "The body didn't arrive", "Send the request again, its body without pauses."),
    no(
        "STORAGE.CONFLICT",
        409,
        "It conflicts with what is stored",
        "Choose another id, or send exactly the same content; a conflicting transaction may be sent again.",
    ),
    again("TX.IDEMPOTENT_BUSY", 409, "The idempotency key is in flight", "Ask again after `retry_after_ms`."),
    no(
        "TX.IDEMPOTENT_LAST_FAILED",
        409,
        "The operation of this idempotency key has failed for good",
        "Take a new key, or have an operator release this one.",
    ),
    no(
        "TX.LEASE_LOST",
        409,
        "Somebody else has it",
        "Drop what was done under this token; begin the key again to hear how it stands.",
    ),
    no(
        "TX.OTHER_STATEMENTS",
        409,
        "The messages were committed without these statements",
        "Repeat exactly the same transaction, or give its messages new ids.",
    ),
    no("DEAD.KIND", 409, "The dead letter is of another kind", "Do what `detail` says."),
    no("OUTBOX.STATE", 409, "Its state doesn't allow this", "Do what `detail` says."),
    no(
        "OUTBOX.PAYLOAD_TOO_LARGE",
        413,
        "The payload is too large",
        "Send a reference, or raise outbox.max_payload_bytes.",
    ),
    no(
        "STORAGE.TOO_LARGE",
        413,
        "The transaction writes more than the store takes at once",
        "Split the transaction, or raise store.memtable; nothing was committed.",
    ),
    no("OUTBOX.TOO_MANY", 413, "Too many messages in one request", "Split the request."),
    no("HTTP.TOO_LARGE", 413, "The body is too large", "Split the request."),
    no("HTTP.MEDIA_TYPE", 415, "The body's media type isn't taken", "Send `content-type: application/json`."),
    no(
        "AUTH.HOST",
        421,
        "The Host header names another host",
        "Address the host as localhost, 127.0.0.1 or [::1], or configure [[auth.token]].",
    ),
    no(
        "CONFIG.RELOAD_REFUSED",
        422,
        "The configuration can't be put in force",
        "Correct what `detail` names; the configuration before stays in force. `waybill config check` says the same.",
    ),
    no(
        "TX.IDEMPOTENT_MISMATCH",
        422,
        "The idempotency key was used for something else",
        "Take a new key for another operation; send exactly the same request to repeat one.",
    ),
    again(
        "HTTP.SHARE",
        429,
        "The caller has its share already",
        "Try again after `retry_after_ms`, with fewer requests at once or over fewer connections.",
    ),
    again("OUTBOX.BUSY", 429, "Too much is waiting", "Try again after `retry_after_ms`."),
    INTERNAL,
    no(
        "HTTP.ANSWER_DROPPED",
        500,
        "It is done, but there was no room for its answer",
        "Don't do it anew: send the same request with the same Idempotency-Key or ids, or look at what was made.",
    ),
    no(
        "STORAGE.CORRUPT",
        500,
        "A stored record can't be read",
        "Look for the request_id in the host's log; `waybill quarantine list` shows the rows that were set aside.",
    ),
    no(
        "STORAGE.NEWER_DATA",
        500,
        "The data was written by a newer Waybill",
        "Start that version, or restore a backup.",
    ),
    no(
        "STORAGE.WENT_BACK",
        500,
        "The store lost what it had",
        "Stop the host and put back a whole copy of the data, or start it again to go on from what is there.",
    ),
    again(
        "PLUGIN.PROVISION_FAILED",
        502,
        "Provisioning failed",
        "Do what `detail` says; part of it may be in place, and the same request goes on from there.",
    ),
    again(
        "PROVIDER.UNAVAILABLE",
        503,
        "The host doesn't take this now",
        "Try again after `retry_after_ms`; /readyz tells what is missing.",
    ),
    again("HTTP.OVERLOADED", 503, "Too many requests or connections at once", "Try again after `retry_after_ms`."),
    again("TX.TIMEOUT", 504, "The outcome isn't known", "Send the same messages with the same ids again."),
    again(
        "STORAGE.DISK_FULL",
        507,
        "The disk is full",
        "Free space in the data directory's file system; the host goes on by itself.",
    ),
];

/// The entry of a code; [`INTERNAL`] for one that isn't in the table.
pub fn lookup(code: &str) -> &'static Code {
    find(code).unwrap_or(&INTERNAL)
}

/// The entry of a code.
pub fn find(code: &str) -> Option<&'static Code> {
    CODES.iter().chain(&PLUGIN_CODES).chain(&SAGA_CODES).find(|entry| entry.code == code)
}

/// The code for an answer that only has a status (made by the router, not by us).
pub fn of_status(status: u16) -> &'static Code {
    let code = match status {
        401 => "AUTH.REQUIRED",
        403 => "AUTH.ROLE",
        404 => "HTTP.NOT_FOUND",
        405 => "HTTP.METHOD",
        413 => "HTTP.TOO_LARGE",
        415 => "HTTP.MEDIA_TYPE",
        503 => "HTTP.OVERLOADED",
        400..500 => "SCHEMA.VALIDATION_FAILED",
        _ => INTERNAL.code,
    };
    lookup(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_sorted_by_status_and_well_formed() {
        let mut seen = std::collections::BTreeSet::new();
        let mut status = 0;
        let tables = [CODES.as_slice(), &PLUGIN_CODES, &SAGA_CODES];
        for (index, code) in tables.iter().flat_map(|table| table.iter().enumerate()) {
            status = if index == 0 { 0 } else { status };
            assert!(seen.insert(code.code), "{} twice", code.code);
            assert!(code.status >= status, "{} is out of order", code.code);
            status = code.status;
            assert!(
                (400..600).contains(&code.status) && !code.title.ends_with('.') && code.fix.ends_with('.'),
                "{code:?}"
            );
            assert!(code.code.bytes().all(|b| b.is_ascii_uppercase() || b == b'.' || b == b'_'));
        }
    }

    /// What a reader would write into the configuration or the shell is there.
    #[test]
    fn fixes_name_what_exists() {
        let fix = |code| find(code).unwrap().fix;
        for code in ["AUTH.REQUIRED", "AUTH.HOST", "AUTH.ORIGIN", "AUTH.PROXY"] {
            assert!(fix(code).contains("[[auth.token]]"), "{code}");
        }
        assert!(fix("STORAGE.CORRUPT").contains("`waybill quarantine list`"));
        assert!(find("HTTP.OVERLOADED").unwrap().title.contains("connections"));
    }

    #[test]
    fn an_unknown_code_is_an_internal_error() {
        assert_eq!(lookup("NOPE").status, 500);
        assert!(of_status(418).status == 400 && of_status(502).status == 500);
    }
}
