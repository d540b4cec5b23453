#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::annotations::Annotations;
use crate::ids::{ConsumerName, InboundId, Place, RelayName, Seq, ShardId, SourceName, Tenant};
use crate::inbox::message::InboundMessage;
use crate::inbox::records::InboxDead;
use crate::message::Message;
use crate::new_message::NewMessage;
use crate::outbox::records::{
    AttemptOutcome, AttemptRecord, DeadLetter, DeadState, Done, DoneEnd, Entry, Parked, Scheduled,
};
use crate::port::query::Found;
use crate::port::transport::PluginIdentity;
use crate::streams::dead::{StoredDead, StreamDeadPlace};
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
fn a_set_that_stands_still_ends_with_its_instant_and_no_later_than_the_filter() {
    let ends = |text: &str, last| {
        let mut filter = Filter::parse(text, UnixMillis(10_000_000)).unwrap();
        filter.until(UnixMillis(last));
        filter.before
    };
    assert_eq!(ends("", 9_000_000), Some(UnixMillis(9_000_001)), "what ended at that instant is taken");
    assert_eq!(ends("age>1h", 9_000_000), Some(UnixMillis(6_400_000)));
    assert_eq!(ends("age>1h", 6_000_000), Some(UnixMillis(6_000_001)));
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
    for (text, part) in [
        ("tenant", "it has no ="),
        ("error=http://shop answered", "error=\"answered 422\""),
        ("colour=red", "write one of tenant, topic"),
        ("tenat=a", "did you mean \"tenant\"?"),
        ("kind=letter", "write one of message, saga, inbox, event"),
        ("state=quarantine", "did you mean \"quarantined\"?"),
        ("state=scheduled", "write waits=schedule"),
        ("state=parked", "write waits=retry"),
        ("waits=scheduled", "did you mean \"schedule\"?"),
        ("age=1h", "with > or <"),
        ("age>x", "age>90m"),
        ("since=14", "2026-12-01T14:00:00Z"),
        ("since=2026-12-01T14:00:00", "2026-12-01T14:00:00Z"),
        ("until>2026-12-01", "use ="),
        ("tenant>a", "use ="),
        ("key=", "needs a value"),
        ("key='a", "isn't closed"),
    ] {
        let error = Filter::parse(text, UnixMillis(0)).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn signatures_leave_out_numbers_and_quotes_and_keep_whose_error_it_is() {
    assert_eq!(
        signature("http://10.0.0.7:8080/orders/17 answered 422, http://b2 too"),
        "http://10.0.0.7:8080/orders/# answered #, http://b2 too"
    );
    assert_eq!(signature("HTTP 503 from \"http://a/17\" after 12 ms"), "HTTP # from \"…\" after # ms");
}

#[test]
fn a_quote_holds_spaces_and_an_apostrophe_within_a_word_is_one() {
    let key = |text: &str| Filter::parse(text, UnixMillis(0)).unwrap().key;
    for (text, read) in [
        ("key=\"a 'b' c\" tenant=x", "a 'b' c"),
        ("'key=a b' tenant=x", "a b"),
        ("key=*isn't* tenant=x", "*isn't*"),
        (r#"key="say \"no\" to C:\\x\y""#, r#"say "no" to C:\x\y"#),
        (r"key=a\b", r"a\b"),
    ] {
        assert_eq!(key(text), Some(Glob::new(read)), "{text}");
    }
}

#[test]
fn what_can_be_read_of_a_filter_stays_as_it_was_typed() {
    let read = |text: &str| readable(text, |text| Filter::parse(text, UnixMillis(0)));
    assert_eq!(read("key=\"a b\" age>1h"), ("key=\"a b\" age>1h".to_owned(), None));
    for (text, kept, says) in [
        ("tenant=acme agee>1h  key=\"a 'b' c\"", "tenant=acme key=\"a 'b' c\"", "did you mean \"age\"?"),
        ("colour=red", "", "there is no field"),
        ("key=a key=b topic=x", "key=a topic=x", "stands twice"),
        ("topic=x key=\"a b", "", "a quote isn't closed"),
    ] {
        let (left, error) = read(text);
        assert_eq!(left, kept, "{text}");
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(says), "{text}: {error}");
    }
}

fn message(topic: &str) -> Arc<Message> {
    let new = NewMessage { topic: topic.to_owned(), ..NewMessage::default() };
    new.check(UnixMillis(0), 0).unwrap().message
}

#[test]
fn a_topic_is_found_as_it_was_sent_and_as_it_is_stored() {
    let message = message("http://127.0.0.1:9000/orders");
    assert_eq!(message.topic.as_str(), "http:http://127.0.0.1:9000/orders");
    for (text, wanted) in [
        ("topic=http://127.0.0.1:9000/orders", true),
        ("topic=http:http://127.0.0.1:9000/orders", true),
        ("topic=http://127.0.0.1:*", true),
        ("topic=*/orders", true),
        ("topic=https://127.0.0.1:9000/orders", false),
        ("topic=//127.0.0.1:9000/orders", false),
    ] {
        let filter = Filter::parse(text, UnixMillis(0)).unwrap();
        assert_eq!(filter.takes_message(&message, UnixMillis(0)), wanted, "{text}");
    }
}

#[test]
fn an_error_is_found_as_it_is_shown_and_as_it_is_grouped() {
    let dead = InboxDead { reason: "http://127.0.0.1:17810 answered 422".into(), ..received() };
    for (text, wanted) in [
        ("error=*422*", true),
        ("error=HTTP*", true),
        ("error=\"HTTP.422: http://127.0.0.1:17810 answered 422\"", true),
        ("error=\"http://127.0.0.1:17810 answered 422\"", true),
        ("error=\"http://127.0.0.1:17810 answered #\"", true),
        ("error=*423*", false),
        ("error=NATS*", false),
    ] {
        let filter = Filter::parse(text, UnixMillis(10)).unwrap();
        assert_eq!(filter.takes_dead_inbox(ShardId(3), &dead), wanted, "{text}");
    }
}

#[test]
fn since_takes_the_instant_itself_and_until_ends_before_it() {
    let message = message("bus:x");
    // 2026-12-01T14:00:00Z.
    let at = UnixMillis(1_796_133_600_000);
    for (text, wanted) in [
        ("since=2026-12-01T14:00:00Z", true),
        ("since=2026-12-01T15:00:00+01:00 until=2026-12-02", true),
        ("since=2026-12-01T14:00:00.001Z", false),
        ("until=2026-12-01T14:00:00Z", false),
        ("until=2026-12-01T14:00:00.001Z", true),
        ("since=2026-12-01 until=2026-12-01", false),
        // Of several the narrowest holds, in whatever order.
        ("until=2026-12-01 until=2026-12-03", false),
        ("since=2026-12-02 since=2026-11-01", false),
    ] {
        let filter = Filter::parse(text, at).unwrap();
        assert_eq!(filter.takes_message(&message, at), wanted, "{text}");
    }
}

#[test]
fn an_annotation_has_its_short_name_too() {
    let of = |text| Filter::parse(text, UnixMillis(0)).unwrap().annotations;
    for (text, annotation) in [
        ("envelope=x", Annotation::EnvelopeId),
        ("envelope_id=x", Annotation::EnvelopeId),
        ("correlation=x", Annotation::CorrelationId),
        ("causation-id=x", Annotation::CausationId),
        ("aggregate-type=x", Annotation::AggregateType),
        ("aggregate_id=x", Annotation::AggregateId),
    ] {
        assert_eq!(of(text), [(annotation, Glob::new("x"))], "{text}");
    }
}

#[test]
fn what_is_dead_or_finished_waits_for_nothing() {
    let filter = Filter::parse("waits=*", UnixMillis(0)).unwrap();
    assert!(DeadKind::ALL.iter().all(|kind| !filter.may_take(*kind)));
    assert!(filter.takes_message(&message("bus:x"), UnixMillis(0)));
    let scheduled =
        Found::Scheduled(Arc::new(Scheduled { shard: ShardId(0), due: UnixMillis(5), message: message("bus:x") }));
    let takes = |text| Filter::parse(text, UnixMillis(0)).unwrap().takes_found(&scheduled);
    assert!(takes("waits=schedule") && takes("waiting=sched*") && !takes("waits=retry"));
    for (other, ours) in [("route", "no_route"), ("pause", "paused")] {
        let read = |word: &str| Filter::parse(&format!("waits={word}"), UnixMillis(0)).unwrap();
        assert_eq!(read(other), read(ours));
    }
}

#[test]
fn a_generation_is_that_of_the_latest_attempt() {
    let attempt = |generation: Option<u32>| AttemptRecord {
        at: UnixMillis(5),
        took_ms: 1,
        outcome: AttemptOutcome::Delivered,
        worker: "host-a".into(),
        transport: "bus".into(),
        plugin: generation.map(|generation| {
            let digest = format!("sha256:{generation}{generation}ff");
            Arc::new(PluginIdentity { plugin: "nats".into(), version: "1.2.3".into(), digest, generation })
        }),
        code: None,
        reason: None,
        maybe_delivered: false,
    };
    let place = Place { shard: ShardId(0), segment: Seq(1 << 20), index: 0 };
    let done = |history: Vec<AttemptRecord>| {
        let (message, at) = (message("bus:x"), UnixMillis(5));
        Found::Done(place, Done { index: 0, message, end: DoneEnd::Delivered, at, attempts: 2, receipt: None, history })
    };
    let parked = |history: Vec<AttemptRecord>| {
        let (due, delay) = (UnixMillis(9), std::time::Duration::ZERO);
        let first_attempt_at = UnixMillis(5);
        let message = message("bus:x");
        Found::Parked(Arc::new(Parked {
            place,
            message,
            attempts: 1,
            due,
            delay,
            first_attempt_at,
            claimed: false,
            history,
        }))
    };
    let dead = |history: Vec<AttemptRecord>| {
        let (code, reason) = ("HTTP.400".to_owned(), "no".to_owned());
        let (message, died_at, state) = (message("bus:x"), UnixMillis(5), DeadState::Dead);
        let letter = DeadLetter {
            place,
            message,
            code,
            reason,
            attempts: 1,
            suspect: 0,
            died_at,
            state,
            holds_key: false,
            history,
        };
        Found::Dead(Arc::new(letter))
    };
    let entry = Entry { index: 0, message: message("bus:x") };
    let waits = Found::Flowing { place, entry, claimed: false };
    for (text, wanted) in [
        ("generation=3", true),
        ("generation=2", false),
        ("generation=sha256:33*", true),
        ("generation=sha256:22*", false),
    ] {
        let filter = Filter::parse(text, UnixMillis(0)).unwrap();
        let history = || vec![attempt(Some(2)), attempt(Some(3))];
        for found in [done(history()), parked(history()), dead(history())] {
            assert_eq!(filter.takes_found(&found), wanted, "{text}: {found:?}");
        }
        for found in [done(Vec::new()), done(vec![attempt(Some(3)), attempt(None)]), waits.clone()] {
            assert!(!filter.takes_found(&found), "no generation made this: {found:?}");
        }
        assert_eq!(
            DeadKind::ALL.map(|kind| filter.may_take(kind)),
            DeadKind::ALL.map(|kind| kind == DeadKind::Message)
        );
    }
}

/// The second would take the first one's place, and an act would take more than was asked.
#[test]
fn a_field_that_takes_one_value_stands_once() {
    for text in ["topic=bus:mails.* topic=*.test", "id=order-* id=*-17", "error=a error=b", "code=A error_code=B"] {
        let error = Filter::parse(text, UnixMillis(0)).unwrap_err().to_string();
        assert!(error.contains("stands twice"), "{text}: {error}");
    }
    assert!(
        Filter::parse("since=2026-01-01 since=2026-01-02 correlation_id=a* correlation_id=*b", UnixMillis(0)).is_ok()
    );
}

#[test]
fn every_list_names_its_tenant_alike() {
    let named = |text: &str| tenant_in(text).map(|glob| glob.as_str().to_owned());
    assert_eq!(named("definition=order tenant=acme age>1h").as_deref(), Some("acme"));
    assert_eq!(named("colour=red tenant=\"a*\"").as_deref(), Some("a*"));
    for text in ["", "key=tenant", "tenant=", "tenant=acme age>soon"] {
        assert_eq!(named(text), None, "{text}");
    }
}
