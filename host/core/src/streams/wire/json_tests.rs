use proptest::prelude::*;

use super::*;
use crate::ids::Tenant;
use crate::streams::event::tests::event;

fn stream() -> StreamKey {
    StreamKey { tenant: Tenant::new("acme").unwrap(), name: StreamName::new("task.node.1").unwrap() }
}

fn text(event: &Event, token: Option<&str>) -> String {
    String::from_utf8(EnvelopeJson::of(&stream(), 7, event, token).unwrap().to_text().to_vec()).unwrap()
}

fn read(text: &str) -> Result<EnvelopeJson<'static>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn an_envelope_is_one_line_with_numbers_names_and_base64() {
    let event = Event { body: Body::Bytes(Bytes::from_static(b"{\n}")), ..event("e-1") };
    assert_eq!(
        text(&event, Some("7")),
        concat!(
            r#"{"event_id":"e-1","ts_ms":1700000000000,"stream":"task.node.1","seq":"7","resource_type":"TASK","#,
            r#""resource_id":"t-1","op":"UPDATE","schema_version":1,"content_type":"application/json","#,
            r#""payload_bytes":"ewp9","tenant":"acme","resume_token":"7"}"#
        )
    );
    let any = Body::Any { type_url: "type.googleapis.com/sms.Task".into(), value: Bytes::from_static(&[0, 255]) };
    let text = text(&Event { body: any, ..event }, None);
    assert!(text.contains(r#""payload":{"type_url":"type.googleapis.com/sms.Task","value":"AP8="}"#), "{text}");
    assert!(!text.contains("resume_token"));
}

#[test]
fn a_payload_that_lies_elsewhere_is_no_envelope() {
    let blob = Body::Blob { bytes: 1, crc: 1, type_url: None };
    assert!(EnvelopeJson::of(&stream(), 7, &Event { body: blob, ..event("e-1") }, None).is_none());
}

#[test]
fn it_is_read_strictly_and_says_what_is_wrong() {
    let good = r#"{"event_id":"e","ts_ms":1,"stream":"a","seq":1,"resource_type":"T","resource_id":"r","op":"create","schema_version":1}"#;
    let (stream, seq, event) = read(good).unwrap().into_event().unwrap();
    assert_eq!((stream.tenant.as_str(), seq, event.op, event.body), ("default", 1, Op::CREATE, Body::None));
    for (from, to, words) in [
        (r#""seq":1,"#, "", "missing field `seq`"),
        (r#""seq":1"#, r#""seq":"one""#, "as text like"),
        (r#""create""#, r#""PURGE""#, "CREATE, UPDATE, DELETE"),
        (r#""create""#, "2147483648", "an operation"),
        (r#""op""#, r#""operation""#, "unknown field `operation`"),
        (r#""schema_version":1"#, r#""schema_version":-1"#, "u32"),
        (r#""ts_ms":1"#, r#""ts_ms":1,"headers":{"a":"1","a":"2"}"#, "\"a\" is given twice"),
        (r#""ts_ms":1"#, r#""ts_ms":1,"headers":{"a":1}"#, "string"),
        (r#""ts_ms":1"#, r#""ts_ms":1,"payload_bytes":"%""#, "isn't base64"),
        (r#""ts_ms":1"#, r#""ts_ms":1,"payload":{"value":""}"#, "type_url"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good);
        let error = read(&text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    let both = good.replacen("\"seq\"", r#""payload":{"type_url":"t"},"payload_bytes":"","seq""#, 1);
    assert!(read(&both).unwrap().into_event().unwrap_err().to_string().contains("one of them"));
    assert!(read(&good.replace("\"a\"", "\"a b\"")).unwrap().into_event().is_err());
}

#[test]
fn base64_is_read_without_its_padding_too() {
    for text in ["\"AP8=\"", "\"AP8\""] {
        let bytes: Base64Json = serde_json::from_str(text).unwrap();
        assert_eq!(bytes.into_bytes().as_ref(), [0, 255]);
    }
}

fn bodies() -> impl Strategy<Value = Body> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    prop_oneof![
        Just(Body::None),
        bytes().prop_map(Body::Bytes),
        (".{0,20}", bytes()).prop_map(|(type_url, value)| Body::Any { type_url, value }),
    ]
}

fn texts() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(".{1,20}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn an_envelope_comes_back_as_it_was(
        body in bodies(),
        ids in ("[!-~]{1,30}", ".{0,20}", ".{0,20}"),
        numbers in (any::<u64>(), any::<u64>(), any::<i32>(), any::<u32>()),
        optional in (texts(), texts(), texts(), texts()),
        headers in proptest::collection::btree_map(".{0,10}", ".{0,10}", 0..4),
        tenant in "[!-~]{1,20}",
    ) {
        let (ts, seq, op, schema_version) = numbers;
        let (node_uuid, correlation_id, cause, content_type) = optional;
        let event = Event {
            id: EventId::new(&ids.0).unwrap(),
            ts: UnixMillis(ts),
            resource_type: ids.1,
            resource_id: ids.2,
            op: Op(op),
            schema_version,
            node_uuid,
            correlation_id,
            cause,
            headers,
            content_type,
            body,
        };
        let stream = StreamKey { tenant: Tenant::new(tenant).unwrap(), ..stream() };
        let text = EnvelopeJson::of(&stream, seq, &event, Some("token")).unwrap().to_text();
        prop_assert!(!text.contains(&b'\n') && !text.contains(&b'\r'));
        let read: EnvelopeJson = serde_json::from_slice(&text).unwrap();
        prop_assert_eq!(read.resume_token.as_deref(), Some("token"));
        prop_assert_eq!(read.into_event(), Ok((stream, seq, event)));
    }
}
