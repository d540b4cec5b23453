//! `[otel]`: what is exported to an OpenTelemetry collector, and what the environment's `OTEL_` names say where the section doesn't.

use waybill_telemetry::{Protocol, Signal};

use super::{SECOND, is_address};
use crate::config::kinds::Set;
use crate::config::model::OtelSettings;
use crate::config::problem::{Origin, Problem};
use crate::config::reader::Section;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// What an address may be: what stands before an `@` would be a secret.
const ADDRESS: &str = "an address that begins with http:// or https://, without a name, a password and a query";
const PROTOCOLS: &str = "\"http/protobuf\" or \"grpc\"";
const EXPORTERS: &str = "\"otlp\" or \"none\"";
const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];
/// Names of the environment that hold whole numbers, mostly of milliseconds.
const NUMBERS: [&str; 10] = [
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_EXPORT_TIMEOUT",
];

/// Reads the section. None: nothing is exported.
pub fn otel(mut section: Section<'_, '_>) -> Option<OtelSettings> {
    let endpoint = section.optional_text("endpoint", "the address of a collector, e.g. \"http://127.0.0.1:4318\"");
    let protocol = section.optional_text("protocol", PROTOCOLS);
    let headers = section.secrets("headers");
    let own =
        [section.optional_boolean("traces"), section.optional_boolean("metrics"), section.optional_boolean("logs")];
    let sample_ratio = section.optional_number("sample_ratio", 0.0..=1.0);
    let service_name = section.optional_text("service_name", "the name of the service, e.g. \"waybill\"");
    let metrics_interval = section.optional_duration("metrics_interval", None, SECOND);
    if let Some(written) = endpoint.as_ref().filter(|written| !is_address(&written.value)) {
        let shown = Set { value: shown(&written.value), origin: written.origin.clone() };
        section.refuse("endpoint", &shown, format!("it takes {ADDRESS}"));
    }
    let read = protocol.as_ref().and_then(|written| Protocol::named(&written.value));
    if let (Some(written), None) = (&protocol, read) {
        section.refuse("protocol", written, format!("it takes {PROTOCOLS}"));
    }
    let mut of_environment = OfEnvironment { section: &mut section };
    let is_on = endpoint.is_some() || of_environment.names_endpoint();
    if is_on && !of_environment.is_disabled() {
        of_environment.check(protocol.is_none(), sample_ratio.is_none());
        let signals = Signal::ALL.into_iter().zip(own);
        let wanted = signals.filter(|(signal, own)| match own {
            Some(Set { value, .. }) => *value,
            None => of_environment.exports(*signal),
        });
        let signals: Vec<Signal> = wanted.map(|(signal, _)| signal).collect();
        section.done();
        let text = |set: Option<Set<String>>| set.map(|set| set.value);
        return Some(OtelSettings {
            endpoint: text(endpoint),
            protocol: read,
            headers,
            signals,
            sample_ratio,
            service_name: text(service_name),
            metrics_interval,
        });
    }
    section.done();
    None
}

/// An address as it may be shown.
fn shown(text: &str) -> String {
    text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, behind)| format!("...@{behind}"))
}

/// What `OTEL_` names say. The library reads them by itself, and goes on without those that it can't; here they are refused.
struct OfEnvironment<'s, 'r, 'd> {
    section: &'s mut Section<'r, 'd>,
}

impl OfEnvironment<'_, '_, '_> {
    fn get(&self, name: &str) -> Option<String> {
        self.section.environment(name).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    fn names_endpoint(&self) -> bool {
        let own = Signal::ALL.into_iter().any(|signal| self.get(&signal.own_variable("ENDPOINT")).is_some());
        own || self.get(ENDPOINT).is_some()
    }

    fn is_disabled(&self) -> bool {
        self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn exports(&self, signal: Signal) -> bool {
        self.get(&signal.exporter_variable()).is_none_or(|value| value != "none")
    }

    fn check(&mut self, protocol: bool, sampler: bool) {
        self.known(ENDPOINT, ADDRESS, is_address);
        if protocol {
            self.known("OTEL_EXPORTER_OTLP_PROTOCOL", PROTOCOLS, |value| Protocol::named(value).is_some());
        }
        for signal in Signal::ALL {
            self.known(&signal.own_variable("ENDPOINT"), ADDRESS, is_address);
            self.known(&signal.exporter_variable(), EXPORTERS, |value| matches!(value, "otlp" | "none"));
            if protocol {
                let own = signal.own_variable("PROTOCOL");
                self.known(&own, PROTOCOLS, |value| Protocol::named(value).is_some());
            }
        }
        if sampler {
            let samplers = SAMPLERS.join(", ");
            self.known("OTEL_TRACES_SAMPLER", &samplers, |value| SAMPLERS.contains(&value));
            let is_ratio = |value: &str| value.parse().is_ok_and(|ratio: f64| (0.0..=1.0).contains(&ratio));
            self.known("OTEL_TRACES_SAMPLER_ARG", "a number from 0.0 to 1.0", is_ratio);
        }
        self.known("OTEL_EXPORTER_OTLP_COMPRESSION", "\"gzip\" or \"none\"", |value| {
            matches!(value.to_ascii_lowercase().as_str(), "gzip" | "none")
        });
        for name in NUMBERS {
            self.known(name, "a whole number", |value| value.parse::<u32>().is_ok());
        }
    }

    fn known(&mut self, name: &str, takes: &str, is_known: impl FnOnce(&str) -> bool) {
        let Some(value) = self.get(name).filter(|value| !is_known(value)) else { return };
        let problem = Problem::BadValue {
            key: name.to_owned(),
            value: format!("{:?}", shown(&value)),
            cause: format!("it takes {takes}"),
        };
        self.section.problem_at(problem, Origin::Env(name.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_how_it_is_reached_and_holds_no_secret() {
        for right in ["http://127.0.0.1:4318", "https://otlp.example/base"] {
            assert!(is_address(right), "{right}");
        }
        assert_eq!(shown("http://a:b@c"), "...@c");
        for wrong in ["collector:4317", "127.0.0.1:4318", "ftp://a", "http://a:b@c", "http://a/?b", ""] {
            assert!(!is_address(wrong), "{wrong}");
        }
    }
}
