//! `[relay]`, which counts for every relay, and `[relay.NAME]`.

use std::time::Duration;

use waybill_core::endpoint::EndpointSettings;
use waybill_core::ids::RelayName;
use waybill_core::limits::REQUEST_MESSAGES_MAX;
use waybill_core::port::workers::EXTERNAL;
use waybill_core::streams::limits::{
    HOLD_MAX_DEFAULT, RELAY_ATTEMPTS_DEFAULT, RELAY_BATCH_BYTES_DEFAULT, RELAY_BATCH_DEFAULT, RELAY_INFLIGHT_DEFAULT,
};
use waybill_core::streams::relay::OrderBy;
use waybill_core::streams::settings::{OnOvertaken, OnRefused, RelayBody, RelayFrom, RelayPlan};
use waybill_core::streams::wire::{Broker, Template, TemplateError};
use waybill_core::suggest::nearest;

use super::stream::pattern;
use super::transport::check_name;
use super::{u32_of, usize_of};
use crate::config::kinds::Set;
use crate::config::problem::Problem;
use crate::config::reader::Section;
use crate::config::streams::broker_of;

/// Most events that may be under way.
const IN_FLIGHT_MAX: u64 = 100_000;
/// Least time for which retention waits: a host that is replaced comes back within it.
const HOLD_LEAST: Duration = Duration::from_secs(60);

/// Reads `[relay]`: how many events a relay may have under way that doesn't say it itself.
pub fn for_all_relays(section: &mut Section<'_, '_>) -> usize {
    usize_of(section.integer("max_inflight", RELAY_INFLIGHT_DEFAULT as u64, 1..=IN_FLIGHT_MAX))
}

/// What relays may send through.
#[derive(Clone, Copy)]
pub struct Transports<'a> {
    /// Names of all sections, also of those with a mistake in them.
    pub names: &'a [&'a str],
    pub settings: &'a [EndpointSettings],
}

pub fn relay(
    mut section: Section<'_, '_>,
    name: &str,
    in_flight: usize,
    transports: Transports<'_>,
) -> Option<RelayPlan> {
    check_name(&mut section, "relay", name);
    let written = section.required_text("match", "a pattern of stream names", "\"task.**\"");
    let streams = written.and_then(|written| pattern(&mut section, &written));
    let written = section.required_text("transport", "the name of a transport", "\"events-nats\"");
    let transport = written.and_then(|written| found(&mut section, &written, transports));
    let broker = transport.map(broker_of);
    let topic = section.optional_text("topic", "where events go, e.g. \"events.{stream}\"");
    if let Some(broker) = broker {
        check_topic(&mut section, broker, topic.as_ref());
    }
    let orders = [("resource_id", OrderBy::Resource), ("node_uuid", OrderBy::Node), ("stream", OrderBy::Stream)];
    let order_by = section.choice("key", "resource_id", &orders);
    let bodies = [("protobuf", RelayBody::Protobuf), ("json", RelayBody::Json)];
    let body_default = if broker == Some(Broker::Http) { "json" } else { "protobuf" };
    let body = section.choice("body", body_default, &bodies);
    let begins = [("earliest", RelayFrom::Earliest), ("latest", RelayFrom::Latest)];
    let from = section.choice("from", "earliest", &begins);
    let batch = section.integer("batch", RELAY_BATCH_DEFAULT.into(), 1..=REQUEST_MESSAGES_MAX as u64);
    let batch_bytes = section.size("batch_bytes", RELAY_BATCH_BYTES_DEFAULT.into(), 1 << 10..=256 << 20);
    // What counts for all is shown with `[relay]`, and with a relay only what it says itself.
    let own_in_flight = section.optional_integer("max_inflight", 1..=IN_FLIGHT_MAX);
    let attempts_max = section.integer("max_attempts", RELAY_ATTEMPTS_DEFAULT.into(), 1..=10_000);
    let refusals = [("dead-letter", OnRefused::DeadLetter), ("stop", OnRefused::Stop)];
    let on_refused = section.choice("on_refused", "dead-letter", &refusals);
    let hold_max = hold_max(&mut section);
    let overtaken = [("stop", OnOvertaken::Stop), ("go-on", OnOvertaken::GoOn)];
    let on_overtaken = section.choice("on_overtaken", "stop", &overtaken);
    section.done();
    Some(RelayPlan {
        order_by: order_by.unwrap_or_default(),
        body: body.unwrap_or_default(),
        from: from.unwrap_or_default(),
        topic: topic.map(|set| set.value),
        batch: u32_of(batch),
        batch_bytes: u32_of(batch_bytes),
        in_flight_max: own_in_flight.map_or(in_flight, usize_of),
        attempts_max: u32_of(attempts_max),
        on_refused: on_refused.unwrap_or_default(),
        hold_max,
        on_overtaken: on_overtaken.unwrap_or_default(),
        ..RelayPlan::new(RelayName::new(name).ok()?, streams?, transport?.name.clone())
    })
}

/// The transport of a name.
fn found<'t>(
    section: &mut Section<'_, '_>,
    written: &Set<String>,
    transports: Transports<'t>,
) -> Option<&'t EndpointSettings> {
    let found = transports.settings.iter().find(|transport| transport.name == written.value);
    if found.is_some() || transports.names.contains(&written.value.as_str()) {
        return found;
    }
    let cause = match nearest(&written.value, transports.names.iter().copied()) {
        _ if written.value == EXTERNAL => {
            "workers claim messages of the outbox, not events: name a [transport.NAME]".to_owned()
        }
        Some(meant) => format!("there is no [transport.{}]: did you mean {meant:?}?", written.value),
        None => format!("there is no [transport.{}]", written.value),
    };
    section.refuse("transport", written, cause);
    None
}

/// Whether the transport knows where events go: by what is written, else by what is usual for it.
fn check_topic(section: &mut Section<'_, '_>, broker: Broker, written: Option<&Set<String>>) {
    match Template::parse(broker, written.map(|set| set.value.as_str())) {
        Ok(_) => {}
        Err(TemplateError::Unusable { cause, .. }) => {
            if let Some(written) = written {
                section.refuse("topic", written, format!("it {cause}"));
            }
        }
        Err(TemplateError::Missing) => {
            let example = if broker == Broker::Http { "https://hooks.example.com/{stream}" } else { "events.{stream}" };
            let problem = Problem::Missing {
                section: section.heading(),
                key: "topic".into(),
                fix: format!("write where its transport sends events, topic = {example:?}"),
            };
            let at = section.at.clone();
            section.problem_at(problem, at);
        }
    }
}

/// How long retention waits for the relay; none = it doesn't.
fn hold_max(section: &mut Section<'_, '_>) -> Option<Duration> {
    let holds = section.choice("retention", "hold", &[("hold", true), ("lose", false)])?;
    let longest = section.optional_duration("hold_max", holds.then_some(HOLD_MAX_DEFAULT), HOLD_LEAST);
    if let Some((value, origin)) = section.written("hold_max").filter(|_| !holds) {
        section.refuse("hold_max", &Set { value, origin }, "it has no effect with retention = \"lose\"");
    }
    longest.filter(|_| holds)
}
