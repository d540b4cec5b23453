//! Sources, consumers and the inbox in the configuration.

use std::time::Duration;

use waybill_cli::config::Config;
use waybill_cli::config::inbound::{Consumer, Direct, Dlq, Publish, Target};
use waybill_core::endpoint::PluginRef;
use waybill_core::inbox::intake::{FieldNames, MissingId};
use waybill_core::inbox::settings::{AcknowledgeRows, OnReusedId};
use waybill_core::port::source::Overtaken;
use waybill_core::route::Pattern;

use crate::configuration::{case, refused};

/// A broker's source and a table's.
const SOURCES: &str = "[source.shop]\nplugin = \"nats\"\n[source.table]\nplugin = \"postgres\"\n";
/// A transport for all of `bus:`.
const ROUTED: &str = "[transport.bus]\nplugin = \"noop\"\n[[route]]\nmatch = \"bus:**\"\ntransport = \"bus\"\n";

fn loaded(toml: &str) -> Config {
    case(toml).load().unwrap_or_else(|error| panic!("{toml}\n{error}"))
}

fn consumer(toml: &str) -> Consumer {
    loaded(&format!("{SOURCES}{ROUTED}[consumer.ship]\n{toml}")).consumers.remove(0)
}

#[test]
fn a_source_and_a_consumer_have_their_defaults() {
    let config =
        loaded(&format!("{SOURCES}[consumer.ship]\nsource = \"shop\"\nhandler = \"http://127.0.0.1:9000/handle\"\n"));
    let source = &config.sources[0];
    assert_eq!(source.endpoint.plugin, PluginRef::Bundled("nats-source".into()));
    assert_eq!((source.home.as_str(), source.window, source.is_table), ("shop", 50, false));
    assert_eq!(source.tenants.iter().map(|tenant| tenant.as_str()).collect::<Vec<_>>(), ["default"]);
    assert_eq!(
        (source.on_overtaken, source.missing_id, source.id_time_occurred),
        (Overtaken::Stop, MissingId::Row, false)
    );
    assert_eq!((source.orphan_wait, &source.map, source.context.as_deref()), (None, &FieldNames::default(), None));
    let ship = &config.consumers[0];
    assert_eq!((ship.concurrency, ship.stored_max, ship.retry.max_attempts), (16, 5_000, 20));
    assert_eq!((ship.handler_timeout, ship.publish, ship.idempotent), (Duration::from_secs(30), Publish::Stored, true));
    assert_eq!((ship.on_reused_id, ship.acknowledge_rows), (OnReusedId::Dead, AcknowledgeRows::WhenFinished));
    assert_eq!(ship.dlq, Dlq::IfRouted("{context}.dlq.{subject}".into()));
    let Target::Http { url, grants } = &ship.target else { panic!("{:?}", ship.target) };
    assert_eq!(url.as_str(), "http:http://127.0.0.1:9000/handle");
    assert!(
        grants
            .peers
            .iter()
            .all(|peer| peer.contains("localhost") || peer.contains("127.0.0.0") || peer.contains("[::1]"))
    );
    let inbox = &config.inbox;
    assert_eq!(
        (inbox.dedup_window.as_secs(), inbox.dedup_memory, inbox.keep_done.as_secs()),
        (30 * 86_400, 32 << 20, 86_400)
    );
}

#[test]
fn the_consumer_of_document_5_is_taken_with_its_names() {
    let config = loaded(
        "[source.vibes]\nplugin = \"nats\"\nmax_ack_pending = 25\n\
         config = { stream = \"VIBESPRO_EVENTS\", durable = \"sea__from_vibespro\", filter_subject = \"vibespro.event.>\" }\n\
         [consumer.sea]\nsource = [\"vibes\"]\nfilter_subject = \"vibespro.event.>\"\nmax_deliver = 7\n\
         idempotent = false\nhandler = \"http:http://127.0.0.1:8080/handle\"\n",
    );
    assert_eq!((config.sources[0].window, config.consumers[0].retry.max_attempts), (25, 7));
    assert_eq!(config.consumers[0].matches, [Pattern::parse("bus:vibespro.event.**").unwrap()]);
    assert!(!config.consumers[0].idempotent);
    assert_eq!(config.sources[0].endpoint.config["durable"], "sea__from_vibespro");
}

#[test]
fn a_table_is_published_directly_where_one_consumer_sends_it_on() {
    let direct = consumer("source = \"table\"\ndeliver = \"bus:{routing_key}\"\nlanes = 2\n");
    let wanted = Direct { lanes: 2, batch: 200, timeout: Duration::from_secs(5) };
    assert_eq!((direct.publish, direct.dlq), (Publish::Direct(wanted), Dlq::Off));
    assert_eq!(direct.target, Target::Topic("bus:{routing_key}".into()));
    for stored in [
        "source = \"table\"\ndeliver = \"bus:{routing_key}\"\npublish = \"stored\"\n",
        "source = \"table\"\ndeliver = \"saga\"\n",
        "source = \"table\"\nhandler = \"http://127.0.0.1/\"\n",
        "source = \"shop\"\ndeliver = \"bus:{subject}\"\n",
        "source = \"table\"\ndeliver = \"bus:a\"\n[consumer.bill]\nsource = [\"table\"]\ndeliver = \"saga\"\n",
    ] {
        assert_eq!(consumer(stored).publish, Publish::Stored, "{stored}");
    }
}

#[test]
fn the_environment_of_document_4_is_the_default_of_a_table() {
    let toml = format!("{SOURCES}{ROUTED}[consumer.out]\nsource = \"table\"\ndeliver = \"bus:{{routing_key}}\"\n");
    let case = case(&toml)
        .env("OUTBOX_POLL_INTERVAL_MS", "1500")
        .env("OUTBOX_MAX_ATTEMPTS", "5")
        .env("OUTBOX_BACKOFF_BASE_MS", "300")
        .env("OUTBOX_MAX_BACKOFF_MS", "60000");
    let config = case.load().unwrap();
    let retry = config.consumers[0].retry;
    assert_eq!((retry.max_attempts, retry.base_ms, retry.cap_ms), (5, 600, 60_000));
    assert_eq!(config.sources[1].endpoint.config["poll_every"], 1500);
    assert_eq!(config.sources[0].endpoint.config, serde_json::json!({}), "a broker has no such key");
}

#[test]
fn a_component_handles_by_its_name_or_its_path() {
    let by_name = consumer("source = \"shop\"\nhandler = \"fn:noop\"\nallow = { net = [\"tcp://db:5432\"] }\n");
    let Target::Component { endpoint } = &by_name.target else { panic!("{:?}", by_name.target) };
    assert_eq!(endpoint.plugin, PluginRef::Bundled("noop".into()));
    assert_eq!(
        (endpoint.name.as_str(), endpoint.grants.peers.as_slice()),
        ("ship", ["tcp://db:5432".to_owned()].as_slice())
    );
}

#[test]
fn names_of_headers_are_mapped() {
    let config = loaded(
        "[source.shop]\nplugin = \"nats\"\ntenant = [\"acme\", \"shop\"]\nmap = { id = \"x-id\", tenant = \"x-tenant\", type = \"x-type\" }\n",
    );
    let map = &config.sources[0].map;
    assert_eq!(
        (map.id.as_deref(), map.tenant.as_deref(), map.kind.as_deref(), &map.time),
        (Some("x-id"), Some("x-tenant"), Some("x-type"), &None)
    );
    assert!(config.warnings.iter().any(|warning| warning.contains("INBOX.NO_CONSUMER")), "{:?}", config.warnings);
}

#[test]
fn what_can_not_work_together_is_refused_with_its_reason() {
    let of_shop = "source = \"shop\"\n";
    let of_table = "source = \"table\"\n";
    let handled = "handler = \"http://127.0.0.1/\"\n";
    let sent = "deliver = \"bus:{routing_key}\"\n";
    for (consumer, words) in [
        (handled.to_owned(), "has no source"),
        (format!("source = \"shpo\"\n{handled}"), "did you mean \"shop\"?"),
        (format!("source = [\"shop\", \"table\"]\n{handled}"), "give both sources one home"),
        (of_shop.to_owned(), "has no deliver and no handler"),
        (format!("{of_shop}{handled}{sent}"), "deliver and handler are both there"),
        (format!("{of_shop}handler = \"bus:a\"\n"), "a topic is for deliver"),
        (format!("{of_shop}handler = \"fn:gone\"\n"), "isn't bundled"),
        (format!("{of_shop}handler = \"fn:noop/orders\"\n"), "a component has one handler"),
        (format!("{of_shop}deliver = \"bus:{{routing key}}\"\n"), "enclose the name"),
        (format!("{of_shop}deliver = \"bus:a}}\"\n"), "a } without a {"),
        (format!("{of_shop}deliver = \"custom:{{subject}}\"\n"), "no [[route]] takes such a topic"),
        (format!("{of_shop}{handled}match = [\"a.**.b\"]\n"), "** may only stand alone at the end"),
        (format!("{of_shop}{sent}publish = \"direct\"\nmatch = \"a.*\"\n"), "others would wait in the table for ever"),
        (format!("{of_shop}{handled}publish = \"direct\"\n"), "only what goes on to a transport"),
        (format!("{of_table}{sent}dlq = true\n"), "what is given up stays in its table"),
        (
            format!("{of_table}{sent}publish = \"direct\"\n[consumer.bill]\n{of_table}{sent}"),
            "other consumers take from this source",
        ),
        (format!("{of_shop}{handled}dlq = true\ndlq_subject = \"dead.{{subject\"\n"), "enclose the name"),
        (format!("{of_shop}{handled}on_reused_id = \"drop\"\n"), "\"dead\" or \"duplicate\""),
        (format!("{of_shop}{handled}backoff = {{ base_ms = 500, cap_ms = 100 }}\n"), "below base_ms"),
        (format!("{of_shop}{handled}durable = \"a\"\n"), "there is no key \"durable\""),
        (format!("{of_shop}{handled}instances = 4\n"), "instances can't be \"4\": it has no effect without handler"),
        (format!("{of_shop}{handled}memory = \"1MiB\"\n"), "ship.memory can't be"),
        (format!("{of_shop}{handled}config = {{ a = 1 }}\n"), "it has no effect without handler = \"fn:PLUGIN\""),
        (format!("{of_table}{sent}plugin = \"./own.wasm\"\n"), "it has no effect without handler = \"fn:PLUGIN\""),
        (format!("{of_shop}{sent}lanes = 2\n"), "lanes can't be \"2\": it has no effect without publish = \"direct\""),
        (format!("{of_table}{handled}batch = 10\n"), "it has no effect without publish = \"direct\""),
        (format!("{of_shop}{sent}direct_timeout_ms = 500\n"), "it has no effect without publish = \"direct\""),
    ] {
        let error = refused(&format!("{SOURCES}{ROUTED}[consumer.ship]\n{consumer}"));
        assert!(error.starts_with("CONFIG.") && error.contains(words), "{consumer}expected {words:?}, got:\n{error}");
    }
    let no_dlq = refused(&format!("{SOURCES}[consumer.ship]\n{of_shop}{handled}dlq = true\n"));
    assert!(no_dlq.contains("no [[route]] takes \"bus:{context}.dlq.{subject}\""), "{no_dlq}");
    let no_status = refused(&format!(
        "[source.old]\nplugin = \"postgres\"\nconfig = {{ layout = \"published\" }}\n[consumer.ship]\nsource = \"old\"\n{handled}"
    ));
    assert!(no_status.contains("no column for status and claim"), "{no_status}");
    let watched = refused(&format!(
        "{ROUTED}[source.old]\nplugin = \"postgres\"\nwatch = true\n[consumer.ship]\nsource = \"old\"\n{sent}"
    ));
    assert!(watched.contains("source.old.watch") && watched.contains("keeps its plugin until"), "{watched}");
    let overlapping = refused(&format!(
        "{ROUTED}[source.old]\nplugin = \"postgres\"\nreload = \"overlap\"\n[consumer.ship]\nsource = \"old\"\n{sent}"
    ));
    assert!(overlapping.contains("source.old.reload"), "{overlapping}");
    for (source, words) in [
        ("tenant = [\"a\", \"a\"]", "there twice"),
        ("tenant = []", "name the tenants"),
        ("window = 0", "1 to 65536"),
        ("on_overtaken = \"skip\"", "\"stop\" or \"go-on\""),
        ("map = { id = 5 }", "a string in quotes"),
        ("ack_wait = \"2m\"", "there is no key \"ack_wait\""),
        // What a source is asked has times of its own: such keys would do nothing.
        ("probation = \"10s\"", "there is no key \"probation\""),
        ("drain_timeout = \"10s\"", "there is no key \"drain_timeout\""),
        ("send_timeout = \"10s\"", "there is no key \"send_timeout\""),
    ] {
        let error = refused(&format!("[source.shop]\nplugin = \"nats\"\n{source}\n"));
        assert!(error.contains(words), "{source}: expected {words:?}, got:\n{error}");
    }
}

#[test]
fn a_dlq_is_on_where_it_is_said_and_a_route_takes_its_subject() {
    let on =
        consumer("source = \"shop\"\nhandler = \"http://127.0.0.1/\"\ndlq = true\ndlq_subject = \"dead.{subject}\"\n");
    assert_eq!(on.dlq, Dlq::On("dead.{subject}".into()));
    let off = consumer("source = \"shop\"\nhandler = \"http://127.0.0.1/\"\ndlq = false\n");
    assert_eq!(off.dlq, Dlq::Off);
}

#[test]
fn every_setting_of_a_source_and_a_consumer_is_shown() {
    let config = loaded(&format!("{SOURCES}{ROUTED}[consumer.ship]\nsource = \"shop\"\ndeliver = \"saga\"\n"));
    let shown: Vec<&str> = config.shown.iter().map(|shown| shown.path.as_str()).collect();
    for path in [
        "source.shop.window",
        "source.shop.tenant",
        "consumer.ship.max_attempts",
        "consumer.ship.dlq",
        "inbox.dedup_memory",
    ] {
        assert!(shown.contains(&path), "{path} isn't in {shown:?}");
    }
}

#[test]
fn a_window_that_ends_before_a_killer_is_found_is_warned_of() {
    let warned = |window: &str, consumer: &str| {
        let inbox = format!("[inbox]\ndedup_window = \"{window}\"\n[dead]\nkeep = \"2m\"\n");
        let config = loaded(&format!("{inbox}{SOURCES}{ROUTED}[consumer.ship]\nsource = \"shop\"\n{consumer}"));
        config.warnings.iter().any(|warning| warning.contains("inbox.dedup_window") && warning.contains("\"ship\""))
    };
    let handler = "handler = \"http://127.0.0.1:9000/handle\"\n";
    assert!(warned("10m", handler) && !warned("1h", handler) && !warned("30d", handler));
    assert!(warned("1h", &format!("{handler}handler_timeout = \"20m\"\n")), "calls that may take longer");
    assert!(!warned("10m", "deliver = \"bus:{subject}\"\n"), "nothing is called");
}
