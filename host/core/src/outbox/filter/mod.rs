//! The one filter grammar of API, CLI and dashboard (`semantics.md` §2): `tenant=acme code=NATS.* age>1h`.
//!
//! Conditions are separated by spaces and all have to hold. Values may be quoted; `*` stands for any run of characters.
//!
//! | file | holds |
//! |---|---|
//! | `conditions` | reading conditions: what all filters have in common |
//! | `contents` | headers, and fields of payloads |
//! | `replays` | how often a message was put back |
//! | `texts` | texts that are compared as they were typed and as they are shown |
//! | `takes` | what a filter takes of dead letters; of messages elsewhere: [`crate::outbox::found`] |

mod conditions;
mod contents;
mod replays;
mod takes;
#[cfg(test)]
mod tests;
mod texts;

pub use conditions::{Condition, FilterError, INSTANTS, conditions, instant, readable, tenant_in};
pub use contents::{ContentField, Contents, Held};
pub use replays::Replays;
pub use texts::{ErrorGlob, TopicGlob, signature};

use crate::annotation::Annotation;
use crate::annotation_rows;
use crate::glob::Glob;
use crate::outbox::owner::WaitKind;
use crate::port::dead::DeadKind;
use crate::port::service::MessageState;
use crate::suggest::nearest;
use crate::time::UnixMillis;

/// Conditions on messages and dead letters. All that are set have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub tenant: Option<Glob>,
    /// `topic=`; that of a stuck saga is `saga:<definition>/<step>`, that of a received message its subject, that of an event its stream.
    pub topic: Option<TopicGlob>,
    /// `key=`; not of stuck sagas and events.
    pub key: Option<Glob>,
    pub id: Option<Glob>,
    /// `code=`; dead letters and parked messages only.
    pub code: Option<Glob>,
    /// `error=`; dead letters and parked messages only.
    pub error: Option<ErrorGlob>,
    /// `generation=`: the number of the plugin's generation that the latest attempt went to, or its digest; dead letters of messages,
    /// parked and finished messages only.
    pub generation: Option<Glob>,
    pub state: Option<Glob>,
    /// `kind=`: `message`, `saga` (stuck sagas), `inbox` (received messages) or `event` (events of streams).
    pub kind: Option<Glob>,
    /// Stuck sagas are left out, whatever it says of kinds: of acts that aren't for them.
    pub without_sagas: bool,
    /// `definition=`; stuck sagas only.
    pub definition: Option<Glob>,
    /// `step=`: the step whose compensation failed; stuck sagas only.
    pub step: Option<Glob>,
    /// `consumer=`; received messages only.
    pub consumer: Option<Glob>,
    /// `source=`; received messages only.
    pub source: Option<Glob>,
    /// `context=`; received messages only.
    pub context: Option<Glob>,
    /// `relay=`; events of streams only.
    pub relay: Option<Glob>,
    /// `correlation_id=` and the like; not of stuck sagas and events, and of no message that hasn't the text.
    pub annotations: Vec<(Annotation, Glob)>,
    /// `header.NAME=`, `payload.PATH=`; not of stuck sagas and events.
    pub contents: Contents,
    /// `waits=`: what a message waits for. Dead letters and finished messages wait for nothing. Of messages in the order only their
    /// owners know it, so nothing here looks at it.
    pub waits: Option<Glob>,
    /// `replayed>0`; messages and their dead letters only.
    pub replays: Option<Replays>,
    /// Older than this instant (`age>1h`, `until=`).
    pub before: Option<UnixMillis>,
    /// Younger than this instant (`age<1h`, `since=`).
    pub after: Option<UnixMillis>,
}

macro_rules! fields {
    ($($variant:ident = $name:ident ($number:tt) { $($unused:tt)* })*) => {
        concat!(
            "tenant, topic, key, id, code, error, generation, state, waits, kind, definition, step, consumer, source, context, relay, ",
            $(stringify!($name), ", ",)*
            "header.NAME, payload.PATH (e.g. payload.order.id=4711), replayed (with =, > or <, e.g. replayed>0), since, until (e.g. since=2026-12-01T14:00:00Z), age (with > or <, e.g. age>1h); all but these with = and * as a wildcard"
        )
    };
}

/// What may stand before `=`.
const FIELDS: &str = annotation_rows!(fields);

/// States as the source documents name them, and ours (`product.md`, Sources).
pub const STATE_ALIASES: [(&str, &str); 4] =
    [("sent", "done"), ("published", "done"), ("processing", "leased"), ("failed", "dead")];

/// Kinds as the source documents name them, and ours.
pub const KIND_ALIASES: [(&str, &str); 1] = [("outbox", "message")];

/// Our word for a kind.
fn kind_word(word: &str) -> &str {
    KIND_ALIASES.iter().find(|(theirs, _)| *theirs == word).map_or(word, |(_, ours)| ours)
}

/// Words for a pending message that say what it waits for, and that.
const WAITING_STATES: [(&str, &str); 4] =
    [("scheduled", "schedule"), ("parked", "retry"), ("waiting", "*"), ("paused", "paused")];

/// What a message waits for in other words, and ours.
const WAIT_ALIASES: [(&str, &str); 2] = [("route", "no_route"), ("pause", "paused")];

/// What is wanted of the state.
fn state(condition: &Condition) -> Result<Glob, FilterError> {
    let word = condition.value.as_str();
    if let Some((_, waits)) = WAITING_STATES.iter().find(|(state, _)| *state == word) {
        return Err(condition.refuse(format!("a message that is {word} is pending: write waits={waits}")));
    }
    let ours = STATE_ALIASES.iter().find(|(theirs, _)| *theirs == word).map_or(word, |(_, ours)| ours);
    one_of(condition, ours, &MessageState::ALL.map(MessageState::word))
}

/// What is wanted of what a message waits for, where it may be one of these.
pub fn waits(condition: &Condition, kinds: &[WaitKind]) -> Result<Glob, FilterError> {
    let value = condition.value.as_str();
    let ours = WAIT_ALIASES.iter().find(|(other, _)| *other == value).map_or(value, |(_, ours)| ours);
    let words: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    one_of(condition, ours, &words)
}

/// A pattern that matches one of so many words at least.
pub fn one_of(condition: &Condition, pattern: &str, words: &[&str]) -> Result<Glob, FilterError> {
    let glob = Glob::new(pattern);
    if words.iter().any(|word| glob.matches(word)) {
        return Ok(glob);
    }
    let meant =
        nearest(pattern, words.iter().copied()).map_or_else(String::new, |meant| format!(", did you mean {meant:?}?"));
    Err(condition.refuse(format!("there is no such {}{meant}; write one of {}", condition.field, words.join(", "))))
}

/// The annotation that a field is about: under either of its names, or without `_id`.
pub fn annotation(field: &str) -> Option<Annotation> {
    let is_it = |annotation: &Annotation| {
        let name = annotation.name();
        name == field || annotation.dashed() == field || name.strip_suffix("_id").is_some_and(|short| short == field)
    };
    Annotation::ALL.into_iter().find(is_it)
}

impl Filter {
    /// Reads a filter. Ages count back from `now`. An empty text takes everything.
    pub fn parse(text: &str, now: UnixMillis) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for condition in conditions(text, FIELDS, now)? {
            if condition.narrow(&mut filter.before, &mut filter.after) {
                continue;
            }
            if filter.contents.narrow(&condition)? {
                continue;
            }
            let value = condition.value.as_str();
            if let Some(annotation) = annotation(&condition.field) {
                filter.annotations.push((annotation, Glob::new(value)));
                continue;
            }
            let slot = match condition.field.as_str() {
                "topic" | "subject" | "original_subject" => {
                    condition.once(&mut filter.topic, TopicGlob::new(value))?;
                    continue;
                }
                "error" | "last_error" => {
                    condition.once(&mut filter.error, ErrorGlob::new(value))?;
                    continue;
                }
                // What an act is for is put behind a filter as its last word: of these two that one counts.
                "state" | "status" => {
                    filter.state = Some(state(&condition)?);
                    continue;
                }
                "waits" | "waiting" => {
                    condition.once(&mut filter.waits, waits(&condition, &WaitKind::ALL)?)?;
                    continue;
                }
                "kind" => {
                    let words = DeadKind::ALL.map(DeadKind::word);
                    filter.kind = Some(one_of(&condition, kind_word(value), &words)?);
                    continue;
                }
                "replayed" | "replays" => {
                    filter.replays = Some(Replays::narrow(filter.replays, &condition)?);
                    continue;
                }
                "tenant" => &mut filter.tenant,
                "key" | "dispatch_key" => &mut filter.key,
                "id" => &mut filter.id,
                "code" | "error_code" => &mut filter.code,
                "generation" => &mut filter.generation,
                "definition" | "def_name" => &mut filter.definition,
                "step" => &mut filter.step,
                "consumer" | "consumer_name" => &mut filter.consumer,
                "source" => &mut filter.source,
                "context" => &mut filter.context,
                "relay" => &mut filter.relay,
                _ => return Err(condition.unknown(FIELDS)),
            };
            condition.once(slot, Glob::new(value))?;
        }
        Ok(filter)
    }

    /// Whether a dead letter of this kind could match: none does that a condition of other kinds only names.
    pub fn may_take(&self, kind: DeadKind) -> bool {
        self.waits.is_none() && self.is_for(kind)
    }

    /// Whether its conditions are on things of this kind, dead or not.
    fn is_for(&self, kind: DeadKind) -> bool {
        let of_sagas = self.definition.is_some() || self.step.is_some();
        let of_inbox = self.consumer.is_some() || self.source.is_some() || self.context.is_some();
        let of_events = self.relay.is_some();
        let has_no_texts = self.key.is_none() && self.annotations.is_empty() && self.contents.is_empty();
        let is_open = match kind {
            DeadKind::Message => !of_sagas && !of_inbox && !of_events,
            DeadKind::Saga => !of_inbox && !of_events && has_no_texts && !self.without_sagas,
            DeadKind::Inbox => !of_sagas && !of_events,
            DeadKind::Event => !of_sagas && !of_inbox && has_no_texts,
        };
        let is_of_messages = self.generation.is_some() || self.replays.is_some();
        is_open
            && (kind == DeadKind::Message || !is_of_messages)
            && self.kind.as_ref().is_none_or(|glob| glob.matches(kind.word()))
    }

    /// Confines it to one tenant; false when it already names another.
    pub fn confine(&mut self, tenant: &str) -> bool {
        if self.tenant.as_ref().is_some_and(|glob| !glob.matches(tenant)) {
            return false;
        }
        self.tenant = Some(Glob::literal(tenant));
        true
    }

    /// Confines it to what ended until an instant, that one included.
    pub fn until(&mut self, last: UnixMillis) {
        let behind = UnixMillis(last.0.saturating_add(1));
        self.before = Some(self.before.map_or(behind, |before| before.min(behind)));
    }
}
