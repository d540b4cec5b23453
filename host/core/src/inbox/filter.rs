//! The filter grammar of dead letters, for messages that are stored in the inbox: `consumer=ship code=HTTP.* age>1h`.

use super::place::InboxPlace;
use super::records::InboxRow;
use crate::annotation::Annotation;
use crate::annotation_rows;
use crate::glob::Glob;
use crate::ids::{ConsumerName, InboundId, ShardId, Tenant};
use crate::outbox::filter::{Contents, ErrorGlob, FilterError, annotation, conditions, waits};
use crate::outbox::owner::WaitKind;
use crate::port::inbox_store::InboxFilter;
use crate::time::UnixMillis;

macro_rules! fields {
    ($($variant:ident = $name:ident ($number:tt) { $($unused:tt)* })*) => {
        concat!(
            "consumer, source, context, subject, tenant, key, id, code, error, waits, ",
            $(stringify!($name), ", ",)*
            "header.NAME, payload.PATH (with = and * as a wildcard), since, until (of its receipt, e.g. since=2026-12-01T14:00:00Z), age (since it was received, \
             with > or <, e.g. age>1h)"
        )
    };
}

/// What may stand before `=`.
const FIELDS: &str = annotation_rows!(fields);

/// What a stored message may wait for. Its consumer stands for what holds it: a destination that is held, or one that asked for a pause.
const WAITS: [WaitKind; 6] =
    [WaitKind::Key, WaitKind::Retry, WaitKind::Destination, WaitKind::NoRoute, WaitKind::Trial, WaitKind::Turn];

/// Conditions on stored messages. All that are set have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredFilter {
    pub consumer: Option<Glob>,
    pub source: Option<Glob>,
    pub context: Option<Glob>,
    pub subject: Option<Glob>,
    pub tenant: Option<Glob>,
    pub key: Option<Glob>,
    /// `id=`: the sender's, or the place.
    pub id: Option<Glob>,
    /// `code=`: of the last error.
    pub code: Option<Glob>,
    /// `error=`: of the last error.
    pub error: Option<ErrorGlob>,
    /// `waits=`: what a message waits for. Its owner knows that, and the row doesn't say it: [`Self::takes_waiting`] looks at it.
    pub waits: Option<Glob>,
    /// `correlation_id=` and the like; of no message that hasn't the text.
    pub annotations: Vec<(Annotation, Glob)>,
    /// `header.NAME=`, `payload.PATH=`.
    pub contents: Contents,
    /// Received before this instant (`age>1h`, `until=`).
    pub before: Option<UnixMillis>,
    /// Received after this instant (`age<1h`, `since=`).
    pub after: Option<UnixMillis>,
}

impl StoredFilter {
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
                "error" | "last_error" => {
                    condition.once(&mut filter.error, ErrorGlob::new(value))?;
                    continue;
                }
                "waits" | "waiting" => {
                    condition.once(&mut filter.waits, waits(&condition, &WAITS)?)?;
                    continue;
                }
                "consumer" | "consumer_name" => &mut filter.consumer,
                "source" => &mut filter.source,
                "context" => &mut filter.context,
                "subject" | "topic" => &mut filter.subject,
                "tenant" => &mut filter.tenant,
                "key" | "dispatch_key" => &mut filter.key,
                "id" | "message_id" => &mut filter.id,
                "code" | "error_code" => &mut filter.code,
                _ => return Err(condition.unknown(FIELDS)),
            };
            condition.once(slot, Glob::new(value))?;
        }
        Ok(filter)
    }

    /// Confines it to one tenant; false when it already names another.
    pub fn confine(&mut self, tenant: &str) -> bool {
        if self.tenant.as_ref().is_some_and(|glob| !glob.matches(tenant)) {
            return false;
        }
        self.tenant = Some(Glob::literal(tenant));
        true
    }

    /// What of it a store can look up: it takes no less than this filter does.
    pub fn exact(&self) -> InboxFilter {
        let text = |glob: &Option<Glob>| glob.as_ref().and_then(Glob::exact).map(str::to_owned);
        // A place isn't the sender's id.
        let id = text(&self.id).filter(|id| id.parse::<InboxPlace>().is_err());
        InboxFilter {
            consumer: text(&self.consumer).and_then(|name| ConsumerName::new(name).ok()),
            tenant: text(&self.tenant).and_then(|name| Tenant::new(name).ok()),
            context: text(&self.context),
            id: id.and_then(|id| InboundId::new(id).ok()),
        }
    }

    /// Whether a stored message matches by what it waits for, as its owner says; none = it is with its handler, or nobody here knows.
    pub fn takes_waiting(&self, on: Option<WaitKind>) -> bool {
        self.waits.as_ref().is_none_or(|glob| on.is_some_and(|on| glob.matches(on.as_str())))
    }

    /// Whether a stored message matches by its row.
    pub fn takes(&self, shard: ShardId, row: &InboxRow) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        let message = &row.message;
        let is_named = |glob: &Glob| {
            glob.matches(message.id.as_str()) || glob.matches(&InboxPlace { shard, seq: row.seq }.to_string())
        };
        let last = row.last_error.as_ref();
        holds(&self.consumer, row.consumer.as_str())
            && holds(&self.source, message.source.as_str())
            && holds(&self.context, &message.context)
            && holds(&self.subject, &message.subject)
            && holds(&self.tenant, message.tenant.as_str())
            && self.key.as_ref().is_none_or(|glob| message.key.as_ref().is_some_and(|key| glob.matches(key.as_str())))
            && self.id.as_ref().is_none_or(is_named)
            && self.code.as_ref().is_none_or(|glob| last.is_some_and(|last| glob.matches(&last.code)))
            && self.error.as_ref().is_none_or(|glob| last.is_some_and(|last| glob.matches(&last.code, &last.reason)))
            && self
                .annotations
                .iter()
                .all(|(annotation, glob)| message.annotation(*annotation).is_some_and(|text| glob.matches(text)))
            && self.before.is_none_or(|before| message.received_at < before)
            && self.after.is_none_or(|after| message.received_at > after)
            && self.contents.take(&message.headers, Some(&message.payload))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::ids::{Key, Seq, SourceName};
    use crate::inbox::message::InboundMessage;
    use crate::inbox::records::LastError;
    use bytes::Bytes;

    fn row() -> InboxRow {
        InboxRow {
            seq: Seq(17),
            consumer: ConsumerName::new("ship").unwrap(),
            fingerprint: Default::default(),
            order: None,
            digest: Default::default(),
            message: Arc::new(InboundMessage {
                id: InboundId::new("m-1").unwrap(),
                source: SourceName::new("shop").unwrap(),
                tenant: Tenant::unnamed(),
                subject: "sales.event.order_paid.v1".into(),
                context: "sales".into(),
                key: Some(Key::new("order-17").unwrap()),
                headers: Vec::new(),
                content_type: None,
                payload: Bytes::from_static(b"{}"),
                event_type: None,
                event_version: None,
                correlation_id: Some("c-1".into()),
                causation_id: None,
                reply_to: None,
                occurred_at: None,
                received_at: UnixMillis(5_000_000),
                position: None,
                attributes: Vec::new(),
                omitted: None,
            }),
            attempts: 2,
            last_error: Some(LastError { code: "HTTP.503".into(), reason: "503 from \"a\" after 12 ms".into() }),
            due: UnixMillis(9),
            delay: Duration::ZERO,
            maybe_handled: true,
        }
    }

    #[test]
    fn every_condition_has_to_hold() {
        let takes = |text: &str| StoredFilter::parse(text, UnixMillis(10_000_000)).unwrap().takes(ShardId(3), &row());
        for text in [
            "",
            "consumer=ship source=sh* context=sales",
            "subject=*.order_paid.* key=order-17",
            "message_id=m-1",
            "id=inbox-3-17",
            "code=HTTP.* error='# from*'",
            "error=HTTP.503* correlation=c-1",
            "error='503 from \"a\" after 12 ms'",
            "since=1970-01-01T01:23:20Z until=1970-01-01T01:23:20.001Z",
            "age>1h age<2h",
            "tenant=default",
        ] {
            assert!(takes(text), "{text}");
        }
        for text in [
            "consumer=bill",
            "consumer=ship context=stock",
            "id=inbox-3-18",
            "code=NATS.*",
            "age>2h",
            "tenant=a",
            "causation=*",
        ] {
            assert!(!takes(text), "{text}");
        }
        let fresh = InboxRow { last_error: None, ..row() };
        assert!(!StoredFilter::parse("code=*", UnixMillis(0)).unwrap().takes(ShardId(3), &fresh));
    }

    #[test]
    fn what_a_message_waits_for_is_one_of_what_the_inbox_knows() {
        let read = |text: &str| StoredFilter::parse(text, UnixMillis(0));
        let retry = read("waits=retry").unwrap();
        assert!(retry.takes_waiting(Some(WaitKind::Retry)) && !retry.takes_waiting(Some(WaitKind::Key)));
        assert!(!retry.takes_waiting(None) && read("key=*").unwrap().takes_waiting(None));
        assert!(retry.takes(ShardId(3), &row()), "a row doesn't say it");
        assert!(read("waits=*").unwrap().takes_waiting(Some(WaitKind::Turn)));
        assert_eq!(read("waits=route").unwrap(), read("waiting=no_route").unwrap());
        for never in ["schedule", "transport", "paused", "rate"] {
            let refused = read(&format!("waits={never}")).unwrap_err().to_string();
            assert!(refused.contains("write one of key, retry, destination"), "{refused}");
        }
    }

    #[test]
    fn a_store_is_asked_for_no_less_than_what_matches() {
        let exact = |text: &str| StoredFilter::parse(text, UnixMillis(0)).unwrap().exact();
        let filter = exact("consumer=ship tenant=acme context=sales id=m-1 code=HTTP.503");
        assert_eq!(filter.consumer.as_ref().map(ConsumerName::as_str), Some("ship"));
        assert_eq!(
            (filter.context.as_deref(), filter.id.as_ref().map(InboundId::as_str)),
            (Some("sales"), Some("m-1"))
        );
        assert_eq!(exact("consumer=sh* context=* id=inbox-3-17"), InboxFilter::default());
    }

    #[test]
    fn confined_to_a_tenant_it_takes_no_other() {
        let mut filter = StoredFilter::parse("tenant=acme", UnixMillis(0)).unwrap();
        assert!(!filter.confine("other") && filter.confine("acme"));
        assert!(StoredFilter::parse("colour=red", UnixMillis(0)).unwrap_err().to_string().contains("consumer, source"));
    }
}
