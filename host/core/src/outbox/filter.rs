//! The one filter grammar of API, CLI and dashboard (`semantics.md` §2): `tenant=acme code=NATS.* age>1h`.
//!
//! Conditions are separated by spaces and all have to hold. Values may be quoted; `*` stands for any run of characters.

use std::time::Duration;

use thiserror::Error;

use crate::annotation::Annotation;
use crate::annotation_rows;
use crate::glob::Glob;
use crate::ids::ShardId;
use crate::inbox::place::InboxPlace;
use crate::inbox::records::InboxDead;
use crate::message::Message;
use crate::outbox::records::DeadLetter;
use crate::port::dead::DeadKind;
use crate::port::service::MessageState;
use crate::saga::records::SagaDead;
use crate::streams::dead::StoredDead;
use crate::time::UnixMillis;

/// A filter that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("filter {condition:?} isn't usable: {cause}")]
pub struct FilterError {
    pub condition: String,
    /// What is wrong, and what may be written.
    pub cause: String,
}

/// Conditions on messages and dead letters. All that are set have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub tenant: Option<Glob>,
    /// `topic=`; that of a stuck saga is `saga:<definition>/<step>`, that of a received message its subject, that of an event its stream.
    pub topic: Option<Glob>,
    /// `key=`; not of stuck sagas and events.
    pub key: Option<Glob>,
    pub id: Option<Glob>,
    /// `code=`; dead letters and parked messages only.
    pub code: Option<Glob>,
    /// `error=`: matches the error signature; dead letters only.
    pub error: Option<Glob>,
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
    /// Older than this instant (`age>1h`, or `before=`).
    pub before: Option<UnixMillis>,
    /// Younger than this instant (`age<1h`).
    pub after: Option<UnixMillis>,
}

macro_rules! fields {
    ($($variant:ident = $name:ident ($number:tt) { $($unused:tt)* })*) => {
        concat!(
            "tenant, topic, key, id, code, error, state, kind, definition, step, consumer, source, context, relay, ",
            $(stringify!($name), ", ",)*
            "age (with > or <, e.g. age>1h); all but age with = and * as a wildcard"
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

/// Our word for a state.
fn state_word(word: &str) -> &str {
    STATE_ALIASES.iter().find(|(theirs, _)| *theirs == word).map_or(word, |(_, ours)| ours)
}

impl Filter {
    /// Reads a filter. Ages count back from `now`. An empty text takes everything.
    pub fn parse(text: &str, now: UnixMillis) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for condition in conditions(text, FIELDS, now)? {
            let refuse = |cause: String| FilterError { condition: condition.text.clone(), cause };
            let (field, value) = (condition.field.as_str(), condition.value.as_str());
            if field == "age" {
                let slot = if condition.sign == '>' { &mut filter.before } else { &mut filter.after };
                *slot = condition.instant;
                continue;
            }
            if let Some(annotation) = Annotation::named(field) {
                filter.annotations.push((annotation, Glob::new(value)));
                continue;
            }
            let slot = match field {
                "tenant" => &mut filter.tenant,
                "topic" | "subject" | "original_subject" => &mut filter.topic,
                "key" | "dispatch_key" => &mut filter.key,
                "id" => &mut filter.id,
                "code" | "error_code" => &mut filter.code,
                "error" | "last_error" => &mut filter.error,
                "state" | "status" => &mut filter.state,
                "kind" => &mut filter.kind,
                "definition" | "def_name" => &mut filter.definition,
                "step" => &mut filter.step,
                "consumer" | "consumer_name" => &mut filter.consumer,
                "source" => &mut filter.source,
                "context" => &mut filter.context,
                "relay" => &mut filter.relay,
                _ => return Err(refuse(format!("there is no field {field:?}; write one of {FIELDS}"))),
            };
            let is_state = field == "state" || field == "status";
            let glob = match field {
                "kind" => Glob::new(kind_word(value)),
                _ if is_state => Glob::new(state_word(value)),
                _ => Glob::new(value),
            };
            let states = MessageState::ALL.map(MessageState::word);
            if is_state && !states.iter().any(|state| glob.matches(state)) {
                return Err(refuse(format!("there is no such state; write one of {}", states.join(", "))));
            }
            if field == "kind" && !DeadKind::ALL.iter().any(|kind| glob.matches(kind.word())) {
                return Err(refuse("there is no such kind; write message, saga, inbox or event".into()));
            }
            *slot = Some(glob);
        }
        Ok(filter)
    }

    /// Whether a dead letter of this kind could match: none does that a condition of other kinds only names.
    pub fn may_take(&self, kind: DeadKind) -> bool {
        let of_sagas = self.definition.is_some() || self.step.is_some();
        let of_inbox = self.consumer.is_some() || self.source.is_some() || self.context.is_some();
        let of_events = self.relay.is_some();
        let has_no_texts = self.key.is_none() && self.annotations.is_empty();
        let is_open = match kind {
            DeadKind::Message => !of_sagas && !of_inbox && !of_events,
            DeadKind::Saga => !of_inbox && !of_events && has_no_texts && !self.without_sagas,
            DeadKind::Inbox => !of_sagas && !of_events,
            DeadKind::Event => !of_sagas && !of_inbox && has_no_texts,
        };
        is_open && self.kind.as_ref().is_none_or(|glob| glob.matches(kind.word()))
    }

    /// Confines it to one tenant; false when it already names another.
    pub fn confine(&mut self, tenant: &str) -> bool {
        if self.tenant.as_ref().is_some_and(|glob| !glob.matches(tenant)) {
            return false;
        }
        self.tenant = Some(Glob::literal(tenant));
        true
    }

    /// Whether a message matches by itself; `at` is the instant its age counts from.
    pub fn takes_message(&self, message: &Message, at: UnixMillis) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        holds(&self.tenant, message.tenant.as_str())
            && holds(&self.topic, message.topic.as_str())
            && holds(&self.id, message.id.as_str())
            && self.may_take(DeadKind::Message)
            && self.key.as_ref().is_none_or(|glob| message.key.as_ref().is_some_and(|key| glob.matches(key.as_str())))
            && self
                .annotations
                .iter()
                .all(|(annotation, glob)| message.annotation(*annotation).is_some_and(|text| glob.matches(text)))
            && self.before.is_none_or(|before| at < before)
            && self.after.is_none_or(|after| at > after)
    }

    /// Whether a dead letter matches.
    pub fn takes_dead(&self, dead: &DeadLetter) -> bool {
        let state = dead.state.word();
        self.takes_message(&dead.message, dead.died_at)
            && self.code.as_ref().is_none_or(|glob| glob.matches(&dead.code))
            && self.error.as_ref().is_none_or(|glob| glob.matches(&signature(&dead.reason)))
            && self.state.as_ref().is_none_or(|glob| glob.matches(state) || state == "dead" && glob.matches("failed"))
    }

    /// Whether a stuck saga matches: its topic is `saga:<definition>/<step>`, its id is the root's.
    pub fn takes_dead_saga(&self, dead: &SagaDead) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        let state = dead.state.word();
        holds(&self.tenant, dead.key.tenant.as_str())
            && self.may_take(DeadKind::Saga)
            && holds(&self.topic, &dead.topic())
            && holds(&self.definition, &dead.definition.name)
            && holds(&self.step, &dead.step)
            && holds(&self.id, dead.key.id.as_str())
            && holds(&self.code, &dead.code)
            && self.error.as_ref().is_none_or(|glob| glob.matches(&signature(&dead.reason)))
            && holds(&self.state, state)
            && self.before.is_none_or(|before| dead.died_at < before)
            && self.after.is_none_or(|after| dead.died_at > after)
    }

    /// Whether a received message matches that couldn't be handled: its topic is its subject, its id is the sender's or its place.
    pub fn takes_dead_inbox(&self, shard: ShardId, dead: &InboxDead) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        let message = &dead.message;
        let is_named = |glob: &Glob| {
            glob.matches(message.id.as_str()) || glob.matches(&InboxPlace { shard, seq: dead.seq }.to_string())
        };
        holds(&self.tenant, message.tenant.as_str())
            && self.may_take(DeadKind::Inbox)
            && holds(&self.topic, &message.subject)
            && holds(&self.consumer, dead.consumer.as_str())
            && holds(&self.source, message.source.as_str())
            && holds(&self.context, &message.context)
            && self.id.as_ref().is_none_or(is_named)
            && self.key.as_ref().is_none_or(|glob| message.key.as_ref().is_some_and(|key| glob.matches(key.as_str())))
            && self
                .annotations
                .iter()
                .all(|(annotation, glob)| message.annotation(*annotation).is_some_and(|text| glob.matches(text)))
            && holds(&self.code, &dead.code)
            && self.error.as_ref().is_none_or(|glob| glob.matches(&signature(&dead.reason)))
            && holds(&self.state, dead.state.word())
            && self.before.is_none_or(|before| dead.died_at < before)
            && self.after.is_none_or(|after| dead.died_at > after)
    }

    /// Whether an event matches that couldn't be numbered or relayed: its topic is its stream, its id is its place.
    pub fn takes_dead_event(&self, stored: &StoredDead) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        let (stream, why) = (stored.stream(), stored.why());
        holds(&self.tenant, stream.tenant.as_str())
            && self.may_take(DeadKind::Event)
            && holds(&self.topic, stream.name.as_str())
            && holds(&self.id, &stored.place.to_string())
            && self.relay.as_ref().is_none_or(|glob| stored.relay().is_some_and(|relay| glob.matches(relay.as_str())))
            && holds(&self.code, &why.code)
            && self.error.as_ref().is_none_or(|glob| glob.matches(&signature(&why.reason)))
            && holds(&self.state, stored.state.word())
            && self.before.is_none_or(|before| stored.died_at < before)
            && self.after.is_none_or(|after| stored.died_at > after)
    }
}

/// The error text with what differs from case to case taken out: digits become `#`, quoted parts `"…"`. Whose error it is stays: the
/// host and port behind `://`.
pub fn signature(reason: &str) -> String {
    let mut out = String::with_capacity(reason.len());
    let mut quoted = false;
    let mut digits = false;
    let mut named = false;
    for c in reason.chars() {
        named &= !matches!(c, '/' | '?' | '#' | '"') && !c.is_whitespace();
        if named {
            out.push(c);
        } else if c == '"' {
            if !quoted {
                out.push_str("\"…");
            }
            quoted = !quoted;
            if !quoted {
                out.push('"');
            }
            digits = false;
        } else if quoted {
        } else if c.is_ascii_digit() {
            if !digits {
                out.push('#');
            }
            digits = true;
        } else {
            digits = false;
            out.push(c);
            named = out.ends_with("://");
        }
    }
    out
}

/// One condition of a filter, as far as all filters have it in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub text: String,
    /// What stands before the sign.
    pub field: String,
    /// `=`, or `<` or `>` of `age`.
    pub sign: char,
    /// What stands behind it, not empty.
    pub value: String,
    /// Of an `age`: the instant it counts back to.
    pub instant: Option<UnixMillis>,
}

/// Reads conditions. `fields` says what may be written, for messages; ages count back from `now`.
pub fn conditions(text: &str, fields: &str, now: UnixMillis) -> Result<Vec<Condition>, FilterError> {
    split(text)?.into_iter().map(|text| condition(text, fields, now)).collect()
}

fn condition(text: String, fields: &str, now: UnixMillis) -> Result<Condition, FilterError> {
    let refuse = |cause: String| FilterError { condition: text.clone(), cause };
    let at = text.find(['=', '>', '<']).ok_or_else(|| refuse(format!("write one of {fields}")))?;
    let (field, rest) = text.split_at(at);
    let (sign, value) = rest.split_at(1);
    if value.is_empty() {
        return Err(refuse(format!("it needs a value after {sign:?}")));
    }
    let mut instant = None;
    if field == "age" {
        if sign == "=" {
            return Err(refuse("compare an age with > or <".into()));
        }
        let age =
            parse_age(value).ok_or_else(|| refuse("an age is a number with s, m, h or d, e.g. age>90m".into()))?;
        let ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        instant = Some(UnixMillis(now.0.saturating_sub(ms)));
    } else if sign != "=" {
        return Err(refuse(format!("only age takes {sign:?}; use =")));
    }
    let (field, value) = (field.to_owned(), value.to_owned());
    Ok(Condition { field, sign: sign.chars().next().unwrap_or('='), value, instant, text })
}

/// `90m`, `1h`, `30d`, `15s`, `500ms`.
fn parse_age(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

/// Splits at spaces outside quotes; quotes are dropped.
fn split(text: &str) -> Result<Vec<String>, FilterError> {
    let mut conditions = Vec::new();
    let mut current = String::new();
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' | '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !current.is_empty() {
                    conditions.push(std::mem::take(&mut current));
                }
            }
            c => current.push(c),
        }
    }
    if quoted {
        return Err(FilterError { condition: text.to_owned(), cause: "a quote isn't closed".into() });
    }
    if !current.is_empty() {
        conditions.push(current);
    }
    Ok(conditions)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::annotations::Annotations;
    use crate::ids::{ConsumerName, InboundId, RelayName, Seq, SourceName, Tenant};
    use crate::inbox::message::InboundMessage;
    use crate::new_message::NewMessage;
    use crate::outbox::records::DeadState;
    use crate::streams::dead::StreamDeadPlace;
    use crate::streams::records::{Refusal, StreamDead};

    #[test]
    fn conditions_are_read_and_wildcards_match() {
        let filter = Filter::parse("tenant=acme code=NATS.* age>1h key='a b'", UnixMillis(10_000_000)).unwrap();
        assert!(filter.code.as_ref().unwrap().matches("NATS.MAX_PAYLOAD"));
        assert!(!filter.code.unwrap().matches("HTTP.400"));
        assert_eq!(filter.before, Some(UnixMillis(6_400_000)));
        assert_eq!(filter.key, Some(Glob::new("a b")));
    }

    #[test]
    fn a_message_is_found_by_any_of_its_annotations() {
        let with = |annotations| {
            let new = NewMessage { topic: "bus:x".to_owned(), annotations, ..NewMessage::default() };
            new.check(UnixMillis(0), 0).unwrap().message
        };
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        for annotation in Annotation::ALL {
            let filter = Filter::parse(&format!("{}=0*-b7*", annotation.name()), UnixMillis(0)).unwrap();
            let takes = |annotations| filter.takes_message(&with(annotations), UnixMillis(0));
            assert!(takes([(annotation, trace)].into()), "{annotation:?}");
            assert!(!takes(Annotations::default()), "{annotation:?}");
        }
    }

    fn received() -> InboxDead {
        let text = |text: &str| Some(text.to_owned());
        let message = InboundMessage {
            id: InboundId::new("m-1").unwrap(),
            source: SourceName::new("shop").unwrap(),
            tenant: Tenant::unnamed(),
            subject: "sales.order_paid".into(),
            context: "sales".into(),
            key: None,
            headers: Vec::new(),
            content_type: text("text/plain"),
            payload: Bytes::new(),
            event_type: None,
            event_version: None,
            correlation_id: text("c-1"),
            causation_id: text("m-0"),
            reply_to: text("answers"),
            occurred_at: None,
            received_at: UnixMillis(5),
            position: None,
            attributes: Vec::new(),
            omitted: None,
        };
        InboxDead {
            seq: Seq(17),
            consumer: ConsumerName::new("ship").unwrap(),
            fingerprint: Default::default(),
            digest: Default::default(),
            message: Arc::new(message),
            code: "HTTP.422".into(),
            reason: "no such order".into(),
            attempts: 1,
            died_at: UnixMillis(9),
            state: DeadState::Dead,
        }
    }

    #[test]
    fn a_received_message_is_found_by_what_its_sender_said_of_it() {
        for (text, wanted) in [
            ("correlation_id=c-* causation_id=m-0", true),
            ("reply_to=answers content_type=text/*", true),
            ("correlation_id=c-2", false),
            ("aggregate_id=*", false),
            ("traceparent=*", false),
            ("id=inbox-3-17 subject=sales.* consumer=ship source=shop", true),
            ("id=m-1 context=sales", true),
            ("key=*", false),
        ] {
            let filter = Filter::parse(text, UnixMillis(10)).unwrap();
            assert_eq!(filter.takes_dead_inbox(ShardId(3), &received()), wanted, "{text}");
        }
    }

    #[test]
    fn an_event_that_was_refused_is_found_by_its_stream_its_relay_and_its_place() {
        let stored = StoredDead {
            place: StreamDeadPlace { shard: ShardId(3), beat: 17, number: 0 },
            dead: StreamDead::Relay {
                relay: RelayName::new("bus").unwrap(),
                stream: crate::streams::fixtures::stream("task.1"),
                seq: 4,
                packed: Bytes::new(),
                why: Refusal { code: "HTTP.422".into(), reason: "no such task".into() },
            },
            state: DeadState::Dead,
            died_at: UnixMillis(9),
        };
        for (text, wanted) in [
            ("topic=task.* relay=bus code=HTTP.*", true),
            ("kind=event id=event-3-17-0 state=dead", true),
            ("relay=other", false),
            ("kind=inbox", false),
            ("age>1h", false),
        ] {
            let filter = Filter::parse(text, UnixMillis(10)).unwrap();
            assert_eq!(filter.takes_dead_event(&stored), wanted, "{text}");
        }
    }

    #[test]
    fn confined_to_a_tenant_it_takes_that_one_whatever_its_name_is() {
        let mut filter = Filter::default();
        assert!(filter.confine("a*"));
        let tenant = filter.tenant.unwrap();
        assert!(tenant.matches("a*") && !tenant.matches("ab"));
    }

    #[test]
    fn states_may_be_named_as_in_the_source_documents() {
        let state = |text| Filter::parse(text, UnixMillis(0)).unwrap().state;
        assert_eq!(state("status=sent"), state("state=done"));
        assert_eq!(state("state=failed"), state("state=dead"));
        assert_eq!(state("state=processing"), state("state=leased"));
    }

    #[test]
    fn conditions_of_one_kind_leave_the_other_out() {
        let may = |text| {
            let filter = Filter::parse(text, UnixMillis(0)).unwrap();
            DeadKind::ALL.map(|kind| filter.may_take(kind))
        };
        for (text, wanted) in [
            ("tenant=acme code=HTTP.* age>1h", [true, true, true, true]),
            ("kind=saga", [false, true, false, false]),
            ("kind=message", [true, false, false, false]),
            ("kind=outbox", [true, false, false, false]),
            ("kind=inbox", [false, false, true, false]),
            ("kind=event", [false, false, false, true]),
            ("relay=bus", [false, false, false, true]),
            ("kind=*", [true, true, true, true]),
            ("definition=order", [false, true, false, false]),
            ("step=charge", [false, true, false, false]),
            ("consumer=ship", [false, false, true, false]),
            ("source=shop context=sales", [false, false, true, false]),
            ("key=17", [true, false, true, false]),
            ("correlation_id=c-*", [true, false, true, false]),
            ("key=17 kind=saga", [false, false, false, false]),
        ] {
            assert_eq!(may(text), wanted, "{text}");
        }
    }

    #[test]
    fn bad_conditions_say_what_may_be_written() {
        for text in ["tenant", "colour=red", "kind=letter", "age=1h", "age>x", "tenant>a", "key=", "'a"] {
            assert!(Filter::parse(text, UnixMillis(0)).is_err(), "{text}");
        }
        assert!(Filter::parse("colour=red", UnixMillis(0)).unwrap_err().to_string().contains("tenant, topic"));
    }

    #[test]
    fn signatures_leave_out_numbers_and_quotes_and_keep_whose_error_it_is() {
        assert_eq!(
            signature("http://10.0.0.7:8080/orders/17 answered 422, http://b2 too"),
            "http://10.0.0.7:8080/orders/# answered #, http://b2 too"
        );
        assert_eq!(signature("HTTP 503 from \"http://a/17\" after 12 ms"), "HTTP # from \"…\" after # ms");
    }
}
