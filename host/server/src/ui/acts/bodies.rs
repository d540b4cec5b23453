//! What is written into a form, as the API's routes take it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use waybill_api::dead_letters::DeadLetterView;
use waybill_api::headers::HeadersJson;
use waybill_core::json_fault::placed_fault;
use waybill_core::message::Headers;
use waybill_page::acts::AS_TEXT;
use waybill_page::views::{Given, Original, is_secret};

use crate::problem::Problem;

/// Members of an object whose values keep their bytes.
#[derive(Default)]
struct Members(BTreeMap<&'static str, Box<RawValue>>);

impl Members {
    fn put(&mut self, name: &'static str, value: impl Serialize) -> Result<(), Problem> {
        self.0.insert(name, to_raw_value(&value).map_err(Problem::internal)?);
        Ok(())
    }

    /// A text where there is one.
    fn text(&mut self, name: &'static str, given: &Given) -> Result<(), Problem> {
        let text = given.text(name).trim();
        if text.is_empty() { Ok(()) } else { self.put(name, text) }
    }

    /// JSON as it was written.
    fn json(&mut self, name: &'static str, text: String) -> Result<(), Problem> {
        let read = RawValue::from_string(text);
        let read = read
            .map_err(|error| Problem::invalid(format!("the {name} isn't JSON: {}", placed_fault(&error))).at(name))?;
        self.0.insert(name, read);
        Ok(())
    }

    /// Bytes as they were written.
    fn bytes(&mut self, name: &'static str, text: &str) -> Result<(), Problem> {
        self.put(name, STANDARD.encode(text))
    }

    fn headers(&mut self, given: &Given) -> Result<(), Problem> {
        let headers = headers(given)?;
        if headers.is_empty() { Ok(()) } else { self.put("headers", HeadersJson(headers)) }
    }

    fn written(&self) -> Result<String, Problem> {
        serde_json::to_string(&self.0).map_err(Problem::internal)
    }
}

/// `NAME=VALUE`, one a line.
fn headers(given: &Given) -> Result<Headers, Problem> {
    let text = given.lines("headers");
    let one = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.to_owned()))
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let read = lines.map(|line| {
        one(line).ok_or_else(|| Problem::invalid(format!("{line:?} has no =: write NAME=VALUE")).at("headers"))
    });
    read.collect()
}

/// A whole number; none = it is left out.
fn number(name: &'static str, given: &Given) -> Result<Option<u64>, Problem> {
    let text = given.text(name).trim();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Problem::invalid(format!("{text:?} is no whole number")).at(name))
}

/// What an edit changes; it is refused where that is nothing. Headers that weren't shown stay.
pub(super) fn edit(given: &Given, original: &Original, letter: &DeadLetterView) -> Result<String, Problem> {
    let mut members = Members::default();
    let is_changed = |name: &str| original.is_changed(name, given);
    if is_changed("topic") {
        members.put("topic", given.text("topic").trim())?;
    }
    if is_changed("key") {
        let key = given.text("key");
        members.put("key", Some(key).filter(|key| !key.is_empty()))?;
    }
    if is_changed("headers") {
        let mut headers = headers(given)?;
        // One that is written takes the place of the one that wasn't shown.
        let written: Vec<String> = headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let is_kept = |name: &str| is_secret(name) && !written.contains(&name.to_ascii_lowercase());
        headers.extend(headers_of(letter).iter().filter(|(name, _)| is_kept(name)).cloned());
        members.put("headers", HeadersJson(headers))?;
    }
    if is_changed("payload") {
        let text = given.lines("payload");
        match original.is_json {
            true => members.json("payload", text)?,
            false => members.bytes("payload_base64", &text)?,
        }
    }
    if members.0.is_empty() {
        return Err(Problem::invalid("nothing is changed: a dead letter as it is is replayed, not edited"));
    }
    members.text("id", given)?;
    members.written()
}

fn headers_of(letter: &DeadLetterView) -> &[(String, String)] {
    match letter {
        DeadLetterView::Message(message) => &message.headers.0,
        DeadLetterView::Inbox(inbox) => &inbox.headers.0,
        DeadLetterView::Saga(_) | DeadLetterView::Event(_) => &[],
    }
}

pub(super) fn message(given: &Given) -> Result<String, Problem> {
    let mut members = Members::default();
    for name in ["topic", "key", "content_type", "not_before", "expires_at", "correlation_id", "id", "tenant"] {
        members.text(name, given)?;
    }
    members.headers(given)?;
    let text = given.lines("payload");
    match given.is_set(AS_TEXT) {
        true => members.bytes("payload_base64", &text)?,
        false => members.json("payload", text)?,
    }
    members.written()
}

/// What starts a saga.
pub(super) fn saga(given: &Given) -> Result<String, Problem> {
    let mut members = Members::default();
    members.put("definition", given.text("definition").trim())?;
    for name in ["correlation_id", "id", "tenant"] {
        members.text(name, given)?;
    }
    if let Some(version) = number("version", given)? {
        members.put("version", version)?;
    }
    if let Some(seconds) = number("deadline_s", given)? {
        members.put("deadline_ms", seconds.saturating_mul(1_000))?;
    }
    members.headers(given)?;
    let input = given.lines("input");
    if !input.trim().is_empty() {
        members.json("input", input)?;
    }
    members.written()
}

/// What appends one event.
pub(super) fn event(given: &Given) -> Result<String, Problem> {
    let mut event = Members::default();
    let resource = given.text("resource").trim();
    let (kind, id) = resource.split_once('/').ok_or_else(|| {
        Problem::invalid(format!("{resource:?} has no id: write TYPE/ID, e.g. TASK/t-17")).at("resource")
    })?;
    event.put("resource_type", kind)?;
    event.put("resource_id", id)?;
    event.put("op", given.text("op"))?;
    event.put("schema_version", number("schema_version", given)?.unwrap_or(1))?;
    for name in ["event_id", "cause", "correlation_id"] {
        event.text(name, given)?;
    }
    event.headers(given)?;
    let data = given.lines("data");
    if !data.is_empty() {
        let media = given.text("content_type").trim();
        event.put("content_type", if media.is_empty() { "application/json" } else { media })?;
        event.bytes("payload_bytes", &data)?;
    }
    let mut members = Members::default();
    members.put("events", [event.0])?;
    members.text("tenant", given)?;
    if let Some(seq) = number("expected_seq", given)? {
        members.put("expected_seq", seq.to_string())?;
    }
    members.written()
}

#[cfg(test)]
mod tests {
    use waybill_core::code::Code;

    use super::*;

    fn given(texts: &[(&str, &str)]) -> Given {
        Given(texts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_payload_keeps_what_was_written_but_for_line_ends() {
        let body =
            message(&given(&[("topic", "bus:a"), ("payload", "{\"z\":1.10,\r\n\"a\":12345678901234567890123}")]));
        assert_eq!(body.unwrap(), "{\"payload\":{\"z\":1.10,\n\"a\":12345678901234567890123},\"topic\":\"bus:a\"}");
        let body = message(&given(&[("topic", "bus:a"), ("payload", "a\r\n"), (AS_TEXT, "yes")]));
        assert_eq!(body.unwrap(), "{\"payload_base64\":\"YQo=\",\"topic\":\"bus:a\"}");
    }

    #[test]
    fn an_event_has_one_event_and_its_place() {
        let texts =
            [("resource", "TASK/t/1"), ("op", "CREATE"), ("expected_seq", "5"), ("data", "{}"), ("tenant", "a")];
        let expected = "{\"events\":[{\"content_type\":\"application/json\",\"op\":\"CREATE\",\"payload_bytes\":\"e30=\",\
                        \"resource_id\":\"t/1\",\"resource_type\":\"TASK\",\"schema_version\":1}],\"expected_seq\":\"5\",\
                        \"tenant\":\"a\"}";
        assert_eq!(event(&given(&texts)).unwrap(), expected);
    }

    #[test]
    fn faults_name_the_entry() {
        let refused = |made: Result<String, Problem>| {
            let problem = made.unwrap_err();
            assert_eq!(problem.code, Code::SCHEMA_VALIDATION_FAILED);
            problem.at.path.unwrap_or_default()
        };
        assert_eq!(refused(message(&given(&[("topic", "bus:a"), ("payload", "{")]))), "payload");
        assert_eq!(refused(message(&given(&[("headers", "x")]))), "headers");
        assert_eq!(refused(saga(&given(&[("version", "two")]))), "version");
        assert_eq!(refused(saga(&given(&[("input", "{,}")]))), "input");
        assert_eq!(refused(event(&given(&[("resource", "TASK")]))), "resource");
        assert_eq!(refused(event(&given(&[("resource", "TASK/1"), ("expected_seq", "-1")]))), "expected_seq");
    }
}
