//! What is written into the form of an act that makes something new, an entry each, with its flag in a terminal.

use super::Act;
use crate::parts::quoted;
use crate::views::{Given, Original};

/// One thing that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What forms call it.
    pub name: &'static str,
    pub title: &'static str,
    pub hint: &'static str,
    pub input: Input,
    /// Before its value in a terminal; empty = the value stands by itself.
    pub flag: &'static str,
}

/// How an entry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Text,
    /// A text without which it isn't done.
    Needed,
    Offered,
    Number,
    /// A length of time, in seconds.
    Seconds,
    Lines,
    /// `NAME=VALUE`, one a line.
    Headers,
    Choice(&'static [&'static str]),
    Switch,
}

const fn entry(name: &'static str, title: &'static str, hint: &'static str, input: Input, flag: &'static str) -> Entry {
    Entry { name, title, hint, input, flag }
}

/// Of a message: the payload's bytes go as they are.
pub const AS_TEXT: &str = "as_text";
const ID: Entry =
    entry("id", "Id", "empty: one is made with the plan; the same id again does nothing twice", Input::Text, "--id");
const HEADERS: Entry = entry("headers", "Headers", "NAME=VALUE, one a line", Input::Headers, "--header");
const KEY: Entry = entry("key", "Key", "messages of one key go one at a time, in order", Input::Text, "--key");
const TENANT: Entry = entry("tenant", "Tenant", "empty: your only one, else default", Input::Text, "--tenant");
const CORRELATION: Entry =
    entry("correlation_id", "Correlation id", "ties it to a request or an operation", Input::Text, "--correlation-id");
const TOPIC_HINT: &str = "http:URL, bus:SUBJECT or custom:NAME";

const EDIT: [Entry; 4] = [
    entry("payload", "Payload", "of the copy", Input::Lines, "--payload"),
    entry("topic", "Topic", TOPIC_HINT, Input::Needed, "--topic"),
    KEY,
    HEADERS,
];

const MESSAGE: [Entry; 11] = [
    entry("topic", "Topic", TOPIC_HINT, Input::Needed, "--topic"),
    entry("payload", "Payload", "any JSON, unless it is said to be text", Input::Lines, "--payload"),
    entry(AS_TEXT, "The payload is text, not JSON: its bytes go as they are", "", Input::Switch, "--raw"),
    entry(
        "content_type",
        "Content type",
        "empty: application/json; of text application/octet-stream",
        Input::Text,
        "--content-type",
    ),
    KEY,
    HEADERS,
    entry(
        "not_before",
        "Not before",
        "an instant as 2026-12-01T08:00:00Z; empty: at once",
        Input::Text,
        "--not-before",
    ),
    entry("expires_at", "Of no use after", "an instant; empty: never", Input::Text, "--expires-at"),
    CORRELATION,
    ID,
    TENANT,
];

const SAGA: [Entry; 8] = [
    entry("definition", "Definition", "its name", Input::Offered, ""),
    entry("input", "Input", "what the steps work on: any JSON; empty: null", Input::Lines, "--input"),
    entry("version", "Version", "empty: the latest", Input::Number, "--version"),
    entry("deadline_s", "Deadline, in seconds", "then it is compensated; empty: none", Input::Seconds, "--deadline"),
    HEADERS,
    entry("correlation_id", "Correlation id", "ties replies to it; empty: its id", Input::Text, "--correlation-id"),
    ID,
    TENANT,
];

const OPS: [&str; 6] = ["UPDATE", "CREATE", "DELETE", "UPSERT", "HEARTBEAT", "STATE_TRANSITION"];

const EVENT: [Entry; 12] = [
    entry("stream", "Stream", "its name", Input::Offered, ""),
    entry("resource", "Resource", "what changed, TYPE/ID", Input::Needed, "--resource"),
    entry("op", "What happened", "", Input::Choice(&OPS), "--op"),
    entry("data", "Payload", "its bytes go as they are; empty: none", Input::Lines, "--data"),
    entry("content_type", "Content type", "of the payload; empty: application/json", Input::Text, "--content-type"),
    entry("schema_version", "Schema version", "of the payload; empty: 1", Input::Number, "--schema-version"),
    entry(
        "expected_seq",
        "Only if the stream ends at number",
        "0: it never had an event; empty: wherever it ends",
        Input::Number,
        "--expected-seq",
    ),
    entry("cause", "Cause", "why it happened", Input::Text, "--cause"),
    HEADERS,
    CORRELATION,
    Entry { name: "event_id", flag: "--event-id", ..ID },
    TENANT,
];

impl Act {
    /// What is written before it is planned; empty = nothing.
    pub fn entries(self) -> &'static [Entry] {
        match self {
            Self::DeadEdit => &EDIT,
            Self::MessageSend => &MESSAGE,
            Self::SagaStart => &SAGA,
            Self::StreamAppend => &EVENT,
            _ => &[],
        }
    }

    /// It makes something of what is written.
    pub fn is_written(self) -> bool {
        !self.entries().is_empty()
    }

    /// The entry that holds the id of what is made.
    pub fn id_entry(self) -> &'static str {
        if self == Self::StreamAppend { "event_id" } else { "id" }
    }

    /// What is written, in a terminal. Of an edit only what differs from what there is.
    pub fn written_command(self, id: &str, tenant: &str, given: &Given, original: Option<&Original>) -> String {
        let mut line = format!("waybill {}", self.about().verb);
        let mut add = |flag: &str, value: &str| {
            let gap = if flag.is_empty() { "" } else { " " };
            line.push_str(&format!(" {flag}{gap}{}", quoted(value)));
        };
        if !id.is_empty() {
            add("", id);
        }
        let is_raw = given.is_set(AS_TEXT) || original.is_some_and(|original| !original.is_json);
        for entry in self.entries() {
            let text = given.lines(entry.name);
            if original.is_some_and(|original| !original.is_changed(entry.name, given)) {
                continue;
            }
            match entry.input {
                Input::Needed | Input::Offered if text.is_empty() => add(entry.flag, &entry.title.to_uppercase()),
                Input::Switch => {}
                Input::Lines if entry.name == "payload" && is_raw => add("--raw --file", "FILE"),
                Input::Lines if entry.name == "payload" && text.is_empty() => add(entry.flag, "JSON"),
                Input::Headers => {
                    text.lines().filter(|line| !line.is_empty()).for_each(|header| add(entry.flag, header));
                    let kept = original.map(|original| original.hidden_headers.as_slice()).unwrap_or_default();
                    kept.iter().for_each(|name| add(entry.flag, &format!("{name}=…")));
                }
                Input::Seconds if !text.is_empty() => add(entry.flag, &format!("{text}s")),
                _ if !text.is_empty() => add(entry.flag, &text),
                _ => {}
            }
        }
        if !tenant.is_empty() {
            add("--tenant", tenant);
        }
        if given.is_set("reason") {
            add("--reason", given.text("reason"));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acts::Reach;

    fn given(texts: &[(&str, &str)]) -> Given {
        Given(texts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn what_makes_something_new_is_written_and_has_an_id() {
        for act in Act::ALL {
            assert!(act.is_written() || act.about().reach != Reach::New, "{act:?}");
            let has_id = act.entries().iter().any(|entry| entry.name == act.id_entry());
            assert!(has_id || act.about().reach != Reach::New, "{act:?}");
        }
    }

    #[test]
    fn what_is_written_is_a_line_for_a_terminal() {
        let texts = given(&[("topic", "bus:a"), ("payload", "{\"n\":1}"), ("headers", "a=1\r\nb=it's"), ("id", "m-1")]);
        let line = Act::MessageSend.written_command("", "", &texts, None);
        assert_eq!(
            line,
            "waybill send --topic bus:a --payload '{\"n\":1}' --header a=1 --header 'b=it'\\''s' --id m-1"
        );
        let texts = given(&[("topic", "bus:a"), ("payload", "x"), (AS_TEXT, "yes")]);
        let line = Act::MessageSend.written_command("", "", &texts, None);
        assert_eq!(line, "waybill send --topic bus:a --raw --file FILE");
        let texts = given(&[("definition", "order"), ("deadline_s", "60")]);
        assert_eq!(Act::SagaStart.written_command("", "", &texts, None), "waybill saga start order --deadline 60s");
        let line = Act::StreamAppend.written_command("", "", &Given::default(), None);
        assert_eq!(line, "waybill stream append STREAM --resource RESOURCE");
    }

    #[test]
    fn an_edit_says_only_what_differs() {
        let original = Original {
            texts: given(&[("payload", "{}"), ("topic", "bus:a"), ("key", "k"), ("headers", "a=1")]),
            hidden_headers: vec!["authorization".into()],
            is_json: true,
            ..Original::default()
        };
        let texts =
            given(&[("payload", "{}\r\n1"), ("topic", "bus:a"), ("key", "k"), ("headers", "a=2"), ("reason", "v2")]);
        let line = Act::DeadEdit.written_command("m-1", "acme", &texts, Some(&original));
        let expected = "waybill dead edit m-1 --payload '{}\n1' --header a=2 --header 'authorization=…' --tenant acme \
                        --reason v2";
        assert_eq!(line, expected);
        let raw = Original { is_json: false, ..original };
        let line = Act::DeadEdit.written_command("m-1", "", &given(&[("payload", "x")]), Some(&raw));
        assert_eq!(line, "waybill dead edit m-1 --raw --file FILE");
    }
}
