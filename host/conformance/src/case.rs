//! An author's case (`tests/*.toml` of a project): what goes in, how the outside answers, what has to come out.
//!
//! `${peer}` in a configuration, a destination or a header is `host:port` of the peer that the suite plays.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::frames::{BytesRule, Frame, Reply};

/// What stands for the peer's address.
const PEER: &str = "${peer}";

/// A case file that can't be used.
#[derive(Debug, Error)]
#[error("{file}: {reason}")]
pub struct CaseError {
    pub file: String,
    /// What is wrong with it, with its place.
    pub reason: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    #[serde(rename = "case")]
    pub(crate) head: Head,
    /// `[peer]`; none = the plugin talks to nobody.
    pub(crate) peer: Option<Peer>,
    /// `[[message]]`: one batch for a transport.
    #[serde(rename = "message", default)]
    pub(crate) messages: Vec<CaseMessage>,
    /// `[[attempt]]`: decisions of a retry policy.
    #[serde(rename = "attempt", default)]
    pub(crate) attempts: Vec<CaseAttempt>,
    /// `[[step]]`: calls of a participant, in order.
    #[serde(rename = "step", default)]
    pub(crate) steps: Vec<CaseStep>,
    /// `[[inbound]]`: one batch for a handler.
    #[serde(default)]
    pub(crate) inbound: Vec<CaseInbound>,
    /// `[[delivery]]`: what a source has to bring, in order.
    #[serde(rename = "delivery", default)]
    pub(crate) deliveries: Vec<CaseDelivery>,
    /// `[[row]]`: what waits in a table, in its order.
    #[serde(rename = "row", default)]
    pub(crate) rows: Vec<CaseRow>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) config: Value,
    /// Values of the secrets it asks for, by name. For tests: never real ones.
    #[serde(default)]
    pub(crate) secrets: BTreeMap<String, String>,
    /// Checks of the suite that don't apply to this plugin, with the reason.
    #[serde(default)]
    pub(crate) not_applicable: BTreeMap<String, String>,
}

/// Who the plugin talks to.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "protocol", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Peer {
    /// An HTTP/1.1 server. The first answer that fits a request and isn't used up is given; 404 if none does.
    Http { answers: Vec<HttpAnswer> },
    /// A server of lines. The first rule that fits a line is followed; a line without a rule is passed over.
    Line {
        /// Written when somebody connects.
        #[serde(default)]
        greeting: String,
        rules: Vec<LineRule>,
    },
    /// A server of frames. The first rule that fits a frame is followed; a frame without a rule is passed over.
    Bytes {
        frame: Frame,
        /// How the first frame of a connection is cut, where it differs.
        first: Option<Frame>,
        /// Written when somebody connects.
        #[serde(default)]
        greeting: Reply,
        rules: Vec<BytesRule>,
    },
    /// A real server that is there already.
    External { address: String },
}

/// One answer of an HTTP peer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpAnswer {
    /// A text that the request line, a header or the body holds; none = any request.
    pub(crate) when: Option<String>,
    /// How often it is given; none = always.
    pub(crate) times: Option<u32>,
    #[serde(default = "ok")]
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) body: String,
    /// What happens in place of an answer.
    #[serde(rename = "do")]
    pub(crate) fault: Option<PeerFault>,
}

fn ok() -> u16 {
    200
}

/// What a line peer does when a line begins with something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LineRule {
    /// What the line begins with; empty = any line.
    #[serde(default)]
    pub(crate) on: String,
    /// Which word of the line (from 1) is the number of payload bytes that follow it; a line break after them is passed over.
    pub(crate) payload_word: Option<usize>,
    /// A text that the line or its payload holds; none = any.
    pub(crate) when: Option<String>,
    /// What is written: `${line}`, `${payload}` and `${1}`, `${2}` ... (its words) are filled in.
    #[serde(default)]
    pub(crate) send: String,
    /// How often the rule holds; none = always.
    pub(crate) times: Option<u32>,
    /// What happens in place of an answer.
    #[serde(rename = "do")]
    pub(crate) fault: Option<PeerFault>,
}

/// What happens in place of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PeerFault {
    /// The connection is closed.
    Drop,
    /// Nothing is ever answered.
    Silent,
}

/// A message and its outcome.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CaseMessage {
    pub(crate) id: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) destination: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) content_type: Option<String>,
    pub(crate) payload: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) attempt: Option<u32>,
    /// `ack`, `retryable`, `permanent`, `blocked`, `release`, or `error` for a call that fails as a whole.
    pub(crate) expect: String,
    /// The fault's code, or the whole call's.
    pub(crate) code: Option<String>,
}

/// A failed attempt and what a policy decides.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CaseAttempt {
    /// `retryable`, `permanent`, `unavailable`, `throttled`, `timed-out`, `trapped`.
    pub(crate) kind: Option<String>,
    pub(crate) number: Option<u32>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) code: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) previous_delay_ms: Option<u64>,
    pub(crate) after_ms: Option<u64>,
    pub(crate) elapsed_ms: Option<u64>,
    pub(crate) random: Option<f64>,
    /// `delay`, `dead`, `pause`, `fallback`.
    pub(crate) expect: String,
    pub(crate) delay_ms: Option<u64>,
}

/// A call of a step and how it ends.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CaseStep {
    pub(crate) name: String,
    /// Undo it in place of doing it.
    pub(crate) compensate: bool,
    pub(crate) input: Value,
    /// What `execute` answered, for a compensation; none = unknown.
    pub(crate) output: Option<Value>,
    pub(crate) tenant: Option<String>,
    pub(crate) attempt: Option<u32>,
    /// `output`, `pending`, `retryable`, `permanent`, `blocked`.
    pub(crate) expect: String,
    pub(crate) code: Option<String>,
    pub(crate) data: Option<Value>,
}

/// A message that came in and its verdict.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CaseInbound {
    pub(crate) id: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) content_type: Option<String>,
    pub(crate) payload: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) event_version: Option<u32>,
    pub(crate) attempt: Option<u32>,
    pub(crate) maybe_handled: bool,
    /// `processed`, `duplicate`, `poison`, `retry`, `busy`, `blocked`.
    pub(crate) expect: String,
    pub(crate) code: Option<String>,
    /// How many messages it leaves behind.
    pub(crate) messages: Option<usize>,
    /// How many signals it leaves behind.
    pub(crate) signals: Option<usize>,
}

/// A delivery that a source has to bring. What isn't named may be anything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CaseDelivery {
    pub(crate) id: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) payload: Option<String>,
}

/// A row that has to wait in a table. What isn't named may be anything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CaseRow {
    /// On the wire.
    pub(crate) id: Option<String>,
    pub(crate) aggregate: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) payload: Option<String>,
    /// Of a row that can't be a message.
    pub(crate) code: Option<String>,
}

/// Outcomes a case may name.
const OUTCOMES: [&str; 6] = ["ack", "retryable", "permanent", "blocked", "release", "error"];
/// Decisions a case may name.
const DECISIONS: [&str; 4] = ["delay", "dead", "pause", "fallback"];
/// Ends of a step that a case may name.
const ENDS: [&str; 5] = ["output", "pending", "retryable", "permanent", "blocked"];
/// Verdicts a case may name.
const VERDICTS: [&str; 6] = ["processed", "duplicate", "poison", "retry", "busy", "blocked"];

impl Case {
    /// Reads a case. `file` is for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, CaseError> {
        let wrong = |reason: String| CaseError { file: file.to_owned(), reason };
        let case: Self = toml::from_str(text).map_err(|error| wrong(error.to_string().trim().to_owned()))?;
        let words = case.messages.iter().map(|message| (&message.expect, OUTCOMES.as_slice()));
        let words = words.chain(case.attempts.iter().map(|attempt| (&attempt.expect, DECISIONS.as_slice())));
        let words = words.chain(case.steps.iter().map(|step| (&step.expect, ENDS.as_slice())));
        let words = words.chain(case.inbound.iter().map(|message| (&message.expect, VERDICTS.as_slice())));
        for (word, known) in words {
            if !known.contains(&word.as_str()) {
                return Err(wrong(format!("expect = {word:?} isn't one of {}", known.join(", "))));
            }
        }
        let about_nothing = case.messages.is_empty()
            && case.attempts.is_empty()
            && case.steps.is_empty()
            && case.inbound.is_empty()
            && case.deliveries.is_empty()
            && case.rows.is_empty();
        if about_nothing {
            let tables = "[[message]], [[attempt]], [[step]], [[inbound]], [[delivery]] or [[row]]";
            return Err(wrong(format!("it says nothing that has to happen: add a {tables}")));
        }
        Ok(case)
    }

    /// Reads every `*.toml` of a folder, by name; none if there is no such folder.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, CaseError> {
        let broken = |path: &Path, error: std::io::Error| CaseError {
            file: path.display().to_string(),
            reason: error.to_string(),
        };
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(broken(folder, error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| broken(folder, error))?.path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                files.push(path);
            }
        }
        files.sort();
        files
            .iter()
            .map(|path| {
                let text = std::fs::read_to_string(path).map_err(|error| broken(path, error))?;
                Self::parse(&path.display().to_string(), &text)
            })
            .collect()
    }

    /// Whether its peer is a real server, which others may use.
    pub(crate) fn is_external(&self) -> bool {
        matches!(self.peer, Some(Peer::External { .. }))
    }

    /// Whether everything it sends ends well: then the suite's own checks run against its peer.
    pub(crate) fn ends_well(&self) -> bool {
        !self.messages.is_empty() && self.messages.iter().all(|message| message.expect == "ack")
    }
}

/// A text with the peer's address in place.
pub(crate) fn at_peer(text: &str, address: &str) -> String {
    text.replace(PEER, address)
}

/// A document with the peer's address in place, in every text of it.
pub(crate) fn value_at_peer(value: &Value, address: &str) -> Value {
    match value {
        Value::String(text) => Value::String(at_peer(text, address)),
        Value::Array(items) => Value::Array(items.iter().map(|item| value_at_peer(item, address)).collect()),
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(name, value)| (name.clone(), value_at_peer(value, address))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_case_is_read_and_its_peer_filled_in() {
        let case = Case::parse(
            "x.toml",
            "[case]\nname = 'x'\nconfig = { servers = ['tcp://${peer}'], n = 3 }\n[peer]\nprotocol = 'line'\n\
             rules = [{ on = 'PUB', send = 'OK ${2}\\n' }]\n[[message]]\nexpect = 'ack'",
        )
        .unwrap();
        assert!(case.ends_well());
        assert_eq!(value_at_peer(&case.head.config, "h:1"), json!({ "servers": ["tcp://h:1"], "n": 3 }));
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, says) in [
            ("[case]\nname='x'", "[[message]]"),
            ("[case]\nname='x'\n[[message]]\nexpect='akc'", "isn't one of ack"),
            ("[case]\nname='x'\n[[message]]\nexpct='ack'", "expct"),
            ("[case]\nname='x'\n[peer]\nprotocol='smtp'\n[[message]]\nexpect='ack'", "smtp"),
            ("[case]\n[[message]]\nexpect='ack'", "name"),
            (
                "[case]\nname='x'\n[peer]\nprotocol='bytes'\nframe={length=4}\nrules=[{on='1'}]\n[[message]]\nexpect='ack'",
                "two digits",
            ),
        ] {
            let error = Case::parse("x.toml", text).expect_err(text).to_string();
            assert!(error.starts_with("x.toml: ") && error.contains(says), "{error}");
        }
    }
}
