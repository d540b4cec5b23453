//! Event streams and relays in the configuration, and roles that name streams.

use std::time::Duration;

use waybill_cli::config::Config;
use waybill_cli::config::problem::Origin;
use waybill_core::streams::name::StreamName;
use waybill_core::streams::relay::OrderBy;
use waybill_core::streams::settings::{
    EventsSettings, OnOvertaken, OnRefused, RelayBody, RelayFrom, RelayPlan, StreamsSettings,
};
use waybill_core::streams::upkeep::Retention;
use waybill_server::auth::Role;

use crate::configuration::{case, refused};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Transports for relays, none of which has a route.
const TRANSPORTS: &str =
    "[transport.bus]\nplugin = \"nats\"\n[transport.hooks]\nplugin = \"http\"\n[transport.own]\nplugin = \"noop\"\n";
const TOKEN: &str =
    "[[auth.token]]\nname = \"a\"\nsha256 = \"d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272\"\n";

fn loaded(toml: &str) -> Config {
    case(toml).load().unwrap_or_else(|error| panic!("{toml}\n{error}"))
}

fn relay(toml: &str) -> RelayPlan {
    loaded(&format!("{TRANSPORTS}[relay.out]\n{toml}")).streams.relays.remove(0)
}

#[test]
fn a_host_has_streams_with_their_defaults_when_nothing_is_written() {
    let config = loaded("");
    let normal = EventsSettings::default();
    // Three quarters of 4,096 connections.
    let events = EventsSettings { subscriptions_max: 3_072, ..normal };
    assert_eq!(config.streams, StreamsSettings { events, ..StreamsSettings::default() });
    assert_eq!(config.warnings, Vec::<String>::new());
    let events = EventsSettings::default();
    assert_eq!((events.live_entries, events.live_bytes, events.live_bytes_total), (1_024, 4 << 20, 32 << 20));
    assert_eq!((events.replay.events, events.replay.bytes, events.replay_bytes_total), (1_000, 1 << 20, 16 << 20));
    assert_eq!(
        (events.payload_bytes_max, events.retention_events, events.subscriptions_max),
        (262_144, 10_000, 10_000)
    );
    assert_eq!((events.keep_ids, events.tombstone_keep, events.feed_keep), (DAY, DAY, DAY / 24));
    assert_eq!(events.stall_timeout, Duration::from_secs(30));
}

#[test]
fn the_five_settings_of_document_3_are_taken_by_their_names_in_file_and_environment() {
    let out = "[relay.out]\nmatch = \"task.**\"\ntransport = \"bus\"\n";
    let file = loaded(&format!(
        "[events]\nlive_buffer_size = 64\nreplay_max_batch = 100\nretention_per_stream = 500\nmax_payload_bytes = 65536\n\
         [relay]\nmax_inflight = 8\n{TRANSPORTS}{out}"
    ));
    let mut env = case(&format!("{TRANSPORTS}{out}"));
    for (name, value) in [
        ("WAYBILL_EVENTS_LIVE_BUFFER_SIZE", "64"),
        ("WAYBILL_EVENTS_REPLAY_MAX_BATCH", "100"),
        ("WAYBILL_EVENTS_RETENTION_PER_STREAM", "500"),
        ("WAYBILL_EVENTS_MAX_PAYLOAD_BYTES", "64KiB"),
        ("WAYBILL_RELAY_MAX_INFLIGHT", "8"),
    ] {
        env = env.env(name, value);
    }
    for streams in [file.streams, env.load().unwrap().streams] {
        let events = &streams.events;
        assert_eq!((events.live_entries, events.replay.events), (64, 100));
        assert_eq!((events.retention_events, events.payload_bytes_max), (500, 65_536));
        assert_eq!(streams.relays[0].in_flight_max, 8);
    }
    let unknown = case("").env("WAYBILL_RELAY_MAX_INFLIGTH", "8").load().unwrap_err().to_string();
    assert!(unknown.contains("WAYBILL_RELAY_MAX_INFLIGHT"), "{unknown}");
}

#[test]
fn streams_have_limits_by_pattern_and_the_first_match_wins() {
    let config = loaded(
        "[events]\nretention_per_stream = 7\n\
         [[stream]]\nmatch = \"*.beats.**\"\nkeep_age = \"5m\"\n\
         [[stream]]\nmatch = \"task.**\"\nkeep_count = 1_000_000\nkeep_bytes = \"1GiB\"\nschema_versions = \"1..=3\"\n\
         [[stream]]\nmatch = \"state.**\"\ncompact = true\n\
         [[stream]]\nmatch = \"node.**\"\ncompact = true\ncompact_lag = \"1m\"\nschema_versions = \"2\"\n",
    );
    let of = |name: &str| {
        let name = StreamName::new(name).unwrap();
        let compaction = config.streams.compaction(&name).map(|(_, lag)| lag);
        (config.streams.retention(&name), compaction, config.streams.event_limits(&name).schema_versions)
    };
    let aged = Retention { keep_age: Some(Duration::from_secs(300)), ..Retention::default() };
    assert_eq!(of("task.beats.1"), (aged, None, None));
    let large = Retention { keep_count: Some(1_000_000), keep_bytes: Some(1 << 30), ..Retention::default() };
    assert_eq!(of("task.node.1"), (large, None, Some((1, 3))));
    assert_eq!(of("state.a"), (Retention::default(), Some(Duration::from_secs(3600)), None));
    assert_eq!(of("node.a"), (Retention::default(), Some(Duration::from_secs(60)), Some((2, 2))));
    assert_eq!(of("other"), (Retention { keep_count: Some(7), ..Retention::default() }, None, None));
}

#[test]
fn a_relay_has_its_defaults_by_the_kind_of_its_transport() {
    let plain = relay("match = \"**\"\ntransport = \"bus\"\n");
    assert_eq!((plain.transport.as_str(), plain.topic, plain.body), ("bus", None, RelayBody::Protobuf));
    assert_eq!((plain.order_by, plain.from), (OrderBy::Resource, RelayFrom::Earliest));
    assert_eq!((plain.batch, plain.batch_bytes, plain.in_flight_max, plain.attempts_max), (50, 1 << 20, 64, 12));
    assert_eq!((plain.on_refused, plain.on_overtaken), (OnRefused::DeadLetter, OnOvertaken::Stop));
    assert_eq!(plain.hold_max, Some(7 * DAY));
    let hooks = relay("match = \"**\"\ntransport = \"hooks\"\ntopic = \"https://hooks.example/{stream}\"\n");
    assert_eq!((hooks.body, hooks.topic.as_deref()), (RelayBody::Json, Some("https://hooks.example/{stream}")));
    let every = relay(
        "match = \"task.**\"\ntransport = \"bus\"\ntopic = \"sms.{tenant}.{resource_id}\"\nkey = \"node_uuid\"\nbody = \"json\"\n\
         from = \"latest\"\nbatch = 10\nbatch_bytes = \"64KiB\"\nmax_inflight = 4\nmax_attempts = 3\non_refused = \"stop\"\n\
         retention = \"lose\"\non_overtaken = \"go-on\"\n",
    );
    assert_eq!((every.order_by, every.body, every.from), (OrderBy::Node, RelayBody::Json, RelayFrom::Latest));
    assert_eq!((every.batch, every.batch_bytes, every.in_flight_max, every.attempts_max), (10, 65_536, 4, 3));
    assert_eq!((every.on_refused, every.on_overtaken), (OnRefused::Stop, OnOvertaken::GoOn));
    assert_eq!(every.hold_max, None);
}

#[test]
fn a_transport_that_a_relay_names_has_something_to_send() {
    let config = loaded(&format!("{TRANSPORTS}[relay.out]\nmatch = \"**\"\ntransport = \"bus\"\n"));
    let idle = |name: &str| {
        let words = format!("no [relay.NAME] names transport {name:?}");
        config.warnings.iter().any(|warning| warning.contains(&words))
    };
    assert!(!idle("bus") && idle("hooks") && idle("own"), "{:?}", config.warnings);
}

#[test]
fn what_can_not_be_is_refused_with_its_reason() {
    let out = format!("{TRANSPORTS}[relay.out]\n");
    let to_bus = format!("{out}match = \"**\"\ntransport = \"bus\"\n");
    for (toml, words) in [
        ("[events]\nreplay_max_batch = 1001\n".to_owned(), "1 to 1000"),
        ("[events]\nmax_payload_bytes = \"5MiB\"\n".to_owned(), "1 to 4MiB"),
        ("[events]\nlive_buffer_size = 1\n".to_owned(), "16 to 1000000"),
        ("[events]\nlive_buffer_bytes = \"64MiB\"\n".to_owned(), "it is more than live_bytes_total = 32MiB"),
        ("[events]\nreplay_bytes_total = \"512KiB\"\n".to_owned(), "it is more than replay_bytes_total = 512KiB"),
        ("[events]\nlive_bufer_size = 64\n".to_owned(), "did you mean \"live_buffer_size\"?"),
        ("[[stream]]\nkeep_count = 5\n".to_owned(), "has no match"),
        ("[[stream]]\nmatch = \"a.**.b\"\n".to_owned(), "** may only stand alone at the end"),
        ("[[stream]]\nmatch = \"saga.**\"\n".to_owned(), "saga.keep_done decides"),
        ("[[stream]]\nmatch = \"a\"\n[[stream]]\nmatch = \"a\"\n".to_owned(), "there already"),
        ("[[stream]]\nmatch = \"a\"\ncompact_lag = \"1m\"\n".to_owned(), "without compact = true"),
        ("[[stream]]\nmatch = \"a\"\nschema_versions = \"0..=3\"\n".to_owned(), "from 1"),
        ("[[stream]]\nmatch = \"a\"\nschema_versions = \"3..=1\"\n".to_owned(), "\"1..=3\""),
        ("[[stream]]\nmatch = \"a\"\nschema_versions = \"1..3\"\n".to_owned(), "\"1..=3\""),
        ("[stream]\nmatch = \"a\"\n".to_owned(), "[[stream]]"),
        ("[relay]\nmax_inflght = 5\n".to_owned(), "did you mean \"max_inflight\"?"),
        ("[relay]\nmax_inflight = 0\n".to_owned(), "1 to 100000"),
        (format!("{out}transport = \"bus\"\n"), "has no match"),
        (format!("{out}match = \"**\"\n"), "has no transport"),
        (format!("{out}match = \"**\"\ntransport = \"buss\"\n"), "did you mean \"bus\"?"),
        (format!("{out}match = \"**\"\ntransport = \"external\"\n"), "messages of the outbox, not events"),
        (format!("{out}match = \"**\"\ntransport = \"hooks\"\n"), "has no topic"),
        (format!("{out}match = \"**\"\ntransport = \"own\"\n"), "has no topic"),
        (
            format!("{out}match = \"**\"\ntransport = \"hooks\"\ntopic = \"https://{{tenant}}.example/\"\n"),
            "place before its path",
        ),
        (format!("{to_bus}topic = \"events.{{name}}\"\n"), "{resource_type}"),
        (format!("{to_bus}key = \"tenant\"\n"), "\"resource_id\" or \"node_uuid\" or \"stream\""),
        (format!("{to_bus}retention = \"lose\"\nhold_max = \"1d\"\n"), "no effect with retention = \"lose\""),
        (format!("{to_bus}hold_max = \"1s\"\n"), "at least 1m"),
        (format!("{to_bus}on_refused = \"dead\"\n"), "\"dead-letter\" or \"stop\""),
        (format!("{to_bus}window = 5\n"), "there is no key \"window\""),
        ("[relay.Out]\nmatch = \"a\"\ntransport = \"bus\"\n".to_owned(), "a-z"),
    ] {
        let error = refused(&toml);
        assert!(error.starts_with("CONFIG.") && error.contains(words), "{toml}expected {words:?}, got:\n{error}");
    }
    let broken = refused("[transport.bus]\nplugin = \"gone\"\n[relay.out]\nmatch = \"**\"\ntransport = \"bus\"\n");
    assert!(broken.contains("CONFIG.PLUGIN_MISSING") && !broken.contains("there is no [transport.bus]"), "{broken}");
}

#[test]
fn subscriptions_leave_a_quarter_of_the_connections_and_who_asked_for_more_is_warned() {
    let most = |toml: &str| loaded(toml).streams.events.subscriptions_max;
    assert_eq!(most("[server]\nmax_connections = 1000\n"), 750);
    assert_eq!(most("[server]\nmax_connections = 100_000\n"), 10_000);
    assert_eq!(most("[events]\nsubscriptions_max = 20\n"), 20);
    let warned = |toml: &str| loaded(toml).warnings.iter().any(|warning| warning.contains("three quarters"));
    assert!(warned("[events]\nsubscriptions_max = 4000\n"));
    assert!(!warned("[events]\nsubscriptions_max = 3000\n") && !warned(""));
    assert!(!warned("[events]\nsubscriptions_max = 4000\n[server]\nmax_connections = 8000\n"));
}

#[test]
fn every_setting_is_shown_with_where_it_comes_from() {
    let config = loaded(&format!(
        "[events]\nkeep_ids = \"48h\"\n{TRANSPORTS}[relay.out]\nmatch = \"**\"\ntransport = \"bus\"\n[[stream]]\nmatch = \"a\"\n"
    ));
    let origin = |path: &str| {
        let shown = config.shown.iter().find(|shown| shown.path == path);
        shown.unwrap_or_else(|| panic!("{path} isn't shown")).origin.clone()
    };
    assert!(matches!(origin("events.keep_ids"), Origin::File { .. }));
    for path in ["events.stall_timeout", "relay.max_inflight", "relay.out.batch", "stream[0].compact"] {
        assert_eq!(origin(path), Origin::Default, "{path}");
    }
}

#[test]
fn roles_may_name_streams() {
    let config =
        loaded(&format!("{TOKEN}roles = [\"viewer\", \"append:task.**\", \"read:task.**\", \"append:task.**\"]\n"));
    let token = &config.auth.tokens[0];
    let streams: Vec<String> = token.streams.iter().map(ToString::to_string).collect();
    assert_eq!(
        (token.roles.as_slice(), streams.as_slice()),
        ([Role::Viewer].as_slice(), ["append:task.**", "read:task.**"].map(str::to_owned).as_slice())
    );
    assert!(loaded(&format!("{TOKEN}roles = [\"read:**\"]\n")).auth.tokens[0].roles.is_empty());
    for (role, words) in [
        ("append", "append:PATTERN"),
        ("write:task.**", "read:PATTERN"),
        ("read:", "empty"),
        ("read:a**", "** may only stand alone"),
    ] {
        let error = refused(&format!("{TOKEN}roles = [\"{role}\"]\n"));
        assert!(error.starts_with("CONFIG.BAD_VALUE") && error.contains(words), "{role}: {error}");
    }
}
