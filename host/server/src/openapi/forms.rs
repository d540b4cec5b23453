//! What the texts of requests may be, in one table. Lengths are in bytes; schemas count characters, of which there are no more.

use waybill_core::limits::{
    HOLD_TOKEN_BYTES_MAX, ID_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, INBOUND_ID_BYTES_MAX, INBOX_NAME_BYTES_MAX,
    KEY_BYTES_MAX, REQUEST_HASH_BYTES_MAX, TENANT_BYTES_MAX, TEXT_BYTES_MAX, TOPIC_BYTES_MAX,
};
use waybill_core::saga::limits::{DEPTH_MAX, NAME_BYTES_MAX, NOTE_BYTES_MAX as SAGA_NOTE_BYTES_MAX, SAGA_ID_BYTES_MAX};
use waybill_core::streams::limits::{HISTORY_NAME_BYTES_MAX, NAME_BYTES_MAX as STREAM_BYTES_MAX, RESOURCE_BYTES_MAX};

use crate::limits::{
    CURSOR_BYTES_MAX, FAULT_CODE_BYTES_MAX, FILTER_BYTES_MAX, LINK_BY_BYTES_MAX, NOTE_BYTES_MAX, RECEIPT_BYTES_MAX,
    TOKEN_NAME_BYTES_MAX, WORKER_BYTES_MAX,
};

/// What a text may be.
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub least: usize,
    pub most: Option<usize>,
    /// A regular expression that it fits.
    pub form: Option<&'static str>,
}

impl Text {
    pub const fn at_least(self, least: usize) -> Self {
        Self { least, ..self }
    }
    pub const fn up_to(self, most: usize) -> Self {
        Self { most: Some(most), ..self }
    }
    const fn like(self, form: &'static str) -> Self {
        Self { form: Some(form), ..self }
    }
}

macro_rules! stream_in_list {
    () => {
        r"(saga\.([A-Za-z0-9._:-]|%[0-9A-F]{2})+|(?!\.\.?([/,]|$))[A-Za-z0-9._:-]+(/(?!\.\.?([/,]|$))[A-Za-z0-9._:-]+)*)"
    };
}

/// A text that isn't empty and has no control character.
pub(super) const NO_CONTROL: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";
/// The same, or an empty one.
const PLAIN: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";
/// The same with something to see in it.
const SEEN: &str =
    "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$";
/// It takes more than spaces alone.
const NOT_BLANK: &str = r"\S";
/// An id of the caller's choice: one that URLs keep.
const CHOSEN: &str = "^(?!\\.{1,2}$)[^\\u0000-\\u001f\\u007f-\\u009f]+$";
/// The same without what stands between a saga and its sub-saga.
const CHOSEN_SAGA: &str = "^(?!\\.{1,2}$)[^~\\u0000-\\u001f\\u007f-\\u009f]+$";
const SAGA: &str = "^[^~\\u0000-\\u001f\\u007f-\\u009f]+(~[^~\\u0000-\\u001f\\u007f-\\u009f]+)*$";
const TOPIC: &str =
    r"^((bus|custom):[^\s\u0000-\u001f\u007f-\u009f]+|(http:|https://)[^\\\u0000-\u001f\u007f-\u009f]+)$";
const TOPICS: &str = r"^((bus|custom|http):|https://).+$";
const STREAM: &str = r"^(saga\.([A-Za-z0-9._:-]|%[0-9A-F]{2})+|(?=.{1,255}$)(?!\.\.?(/|$))[A-Za-z0-9._:-]+(/(?!\.\.?(/|$))[A-Za-z0-9._:-]+)*)$";
/// A stream that can be appended to: no saga's history.
const OWN_STREAM: &str = r"^(?!saga\.)(?!\.\.?(/|$))[A-Za-z0-9._:-]+(/(?!\.\.?(/|$))[A-Za-z0-9._:-]+)*$";
const NO_HISTORIES: &str = r"^(?!saga\.)";
/// At most [`crate::limits::CURSOR_STREAMS_MAX`] streams, or a rule for many.
const SELECTOR: &str = concat!(
    "^(stream:",
    stream_in_list!(),
    "(,",
    stream_in_list!(),
    r"){0,63}|prefix:(?!saga\.)[\s\S]{0,255}|node:[\s\S]{1,255}|type:[^/]{1,255}(/[\s\S]{0,255})?)$"
);
/// A number of an event, or what a page of a stream gave for the next one.
const AFTER: &str = "^[0-9]{1,19}(~[0-9]{1,19})?$";
const OPAQUE: &str = "^[A-Za-z0-9_-]+$";
const SHA256: &str = "^[0-9A-Fa-f]{64}$";
const DIGEST: &str = "^(sha256:)?[0-9A-Fa-f]{64}$";
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw](==)?|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=?)?$";
/// An instant, or a day.
const SINCE: &str = r"^(19[7-9]|[2-9][0-9]{2})[0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))?$";
const GIVEN: &str = "^([^@,]+@[1-9][0-9]{0,8}(,[^@,]+@[1-9][0-9]{0,8})*)?$";
/// Visible ASCII as it is, or a string of RFC 8941.
const IDEMPOTENCY_KEY: &str = r#"^([!#-~][!-~]{0,254}|"([ !#-\[\]-~]|\\["\\]){1,255}")$"#;
const FAULT_CODE: &str = "^[A-Z0-9._]+$";
const WORD: &str = "^[!-~]+$";
/// Names of tokens stand in addresses.
const TOKEN_NAME: &str = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$";

pub(super) const ANY: Text = Text { least: 0, most: None, form: None };
pub(super) const LINE: Text = ANY.at_least(1).like(NO_CONTROL);
pub(super) const TRACE: Text = ANY.like("^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$");
const RESOURCE: Text = LINE.up_to(RESOURCE_BYTES_MAX);
const SAGA_NOTE: Text = ANY.up_to(SAGA_NOTE_BYTES_MAX);

/// Name of a member or a parameter, where it stands (components by name, or a part of a method with its path; nothing = anywhere else),
/// and what it may be. The first that fits counts.
type Row = (&'static str, &'static [&'static str], Text);

/// Members and parameters that aren't here may be any text.
const TEXTS: &[Row] = &[
    ("after", &[], ANY.at_least(1).like(AFTER)),
    ("by", &[], ANY.at_least(1).up_to(LINK_BY_BYTES_MAX).like(SEEN)),
    ("cause", &APPENDED, ANY.up_to(TEXT_BYTES_MAX).like(PLAIN)),
    ("code", &["WorkerError"], ANY.at_least(1).up_to(FAULT_CODE_BYTES_MAX).like(FAULT_CODE)),
    ("code", &["StepReplyError"], ANY.at_least(1).up_to(FAULT_CODE_BYTES_MAX).like(WORD)),
    ("consumer", &["/v1/audit"], ANY.at_least(1)),
    ("consumer", &[], LINE.up_to(INBOX_NAME_BYTES_MAX)),
    ("cursor", &["/v1/subscribe"], ANY.at_least(1).up_to(CURSOR_BYTES_MAX)),
    ("cursor", &[], ANY.at_least(1).like(OPAQUE)),
    ("definition", &[], ANY.at_least(1)),
    ("event_id", &APPENDED, LINE.up_to(ID_BYTES_MAX)),
    ("event_type", &[], LINE.up_to(TEXT_BYTES_MAX)),
    ("filter", &["StartOperation"], ANY.at_least(1).up_to(FILTER_BYTES_MAX).like(NOT_BLANK)),
    ("filter", &[], ANY.up_to(FILTER_BYTES_MAX)),
    ("given", &[], ANY.like(GIVEN)),
    ("hash", &[], LINE.up_to(REQUEST_HASH_BYTES_MAX)),
    // Each item gets an answer of its own, whatever it names.
    ("id", &["SettleItem"], ANY),
    ("id", &["NewMessage", "EditMessage"], ANY.at_least(1).up_to(ID_BYTES_MAX).like(CHOSEN)),
    ("id", &["StartSaga"], ANY.at_least(1).up_to(SAGA_ID_BYTES_MAX).like(CHOSEN_SAGA)),
    ("id", &["/v1/sagas/"], ANY.at_least(1).up_to(SAGA_ID_BYTES_MAX + DEPTH_MAX * (NAME_BYTES_MAX + 1)).like(SAGA)),
    ("id", &["/v1/inbox/"], LINE.up_to(INBOUND_ID_BYTES_MAX)),
    ("id", &[], LINE),
    ("idempotency-key", &[], ANY.like(IDEMPOTENCY_KEY)),
    ("key", &["NewMessage", "EditMessage"], LINE.up_to(KEY_BYTES_MAX)),
    ("key", &[], LINE.up_to(IDEMPOTENCY_KEY_BYTES_MAX)),
    ("kind", &["/v1/audit"], ANY.at_least(1)),
    ("last-event-id", &[], ANY.up_to(CURSOR_BYTES_MAX)),
    ("name", &["NewToken", "/v1/tokens/{name}"], ANY.at_least(1).up_to(TOKEN_NAME_BYTES_MAX).like(TOKEN_NAME)),
    ("name", &["/signals/{name}"], ANY.at_least(1).up_to(NAME_BYTES_MAX)),
    ("name", &["post /v1/streams/{name}/events", "/v1/streams/{name}/import"], OWN),
    ("name", &["/v1/streams/{name}"], NAMED),
    ("node_uuid", &APPENDED, RESOURCE),
    ("note", &[], ANY.at_least(1).up_to(NOTE_BYTES_MAX).like(NOT_BLANK)),
    ("payload_base64", &[], ANY.like(BASE64)),
    ("payload_bytes", &["NewEvent", "TransactionEvent", "EventEnvelope"], ANY.like(BASE64)),
    ("payload_sha", &[], ANY.like(SHA256)),
    ("prefix", &[], ANY.up_to(STREAM_BYTES_MAX).like(NO_HISTORIES)),
    // These are cut where they are too long.
    ("reason", &["WorkerError", "StepReplyError"], ANY),
    ("reason", &["SagaAcceptJson"], SAGA_NOTE.at_least(1).like(NOT_BLANK)),
    ("reason", &["SagaActJson", "SagaStepActJson", "SagaSkipJson", "SagaRetryJson"], SAGA_NOTE),
    ("reason", &[], ANY.up_to(NOTE_BYTES_MAX)),
    ("receipt", &[], ANY.up_to(RECEIPT_BYTES_MAX)),
    ("resource_id", &[], RESOURCE),
    ("resource_type", &[], RESOURCE),
    ("selector", &[], ANY.like(SELECTOR)),
    ("sha256", &["BackupFile"], ANY.like(SHA256)),
    ("sha256", &[], ANY.like(DIGEST)),
    ("since", &[], ANY.like(SINCE)),
    ("step", &[], ANY.at_least(1).up_to(NAME_BYTES_MAX)),
    ("stream", &["TransactionEvent"], OWN),
    ("stream", &[], NAMED),
    ("tenant", &[], LINE.up_to(TENANT_BYTES_MAX)),
    ("token", &["SettleItem"], ANY),
    ("token", &["/v1/approvals/"], LINE),
    ("token", &[], LINE.up_to(HOLD_TOKEN_BYTES_MAX)),
    ("topic", &["Claim"], ANY.at_least(1).up_to(TOPIC_BYTES_MAX).like(TOPICS)),
    ("topic", &[], ANY.at_least(1).up_to(TOPIC_BYTES_MAX).like(TOPIC)),
    ("until", &[], ANY.like(SINCE)),
    ("value", &["AnyPayload"], ANY.like(BASE64)),
    ("worker_id", &[], LINE.up_to(WORKER_BYTES_MAX)),
];

/// Events as they are appended.
pub(super) const APPENDED: [&str; 2] = ["NewEvent", "TransactionEvent"];
const OWN: Text = ANY.at_least(1).up_to(STREAM_BYTES_MAX).like(OWN_STREAM);
const NAMED: Text = ANY.at_least(1).up_to(HISTORY_NAME_BYTES_MAX).like(STREAM);

/// What a text of this name may be in a place: a component, or a method and a path.
pub(super) fn listed(name: &str, place: &str) -> Option<Text> {
    row(name, |places| places.is_empty() || stands_in(places, place))
}

/// The same where only that counts which is listed for the place itself.
pub(super) fn listed_for(name: &str, component: &str) -> Option<Text> {
    row(name, |places| stands_in(places, component))
}

fn row(name: &str, fits: impl Fn(&[&str]) -> bool) -> Option<Text> {
    TEXTS.iter().find(|(of, places, _)| *of == name && fits(places)).map(|(_, _, text)| *text)
}

fn stands_in(places: &[&str], place: &str) -> bool {
    places.iter().any(|of| *of == place || (of.contains('/') && place.contains(*of)))
}
