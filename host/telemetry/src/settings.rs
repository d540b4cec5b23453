//! What is exported, where to, and what the environment says of it that the library doesn't read.

use std::env;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

const SERVICE_NAME: &str = "waybill";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    /// The one of this name in `OTEL_EXPORTER_OTLP_PROTOCOL`.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "http/protobuf" => Some(Self::Http),
            "grpc" => Some(Self::Grpc),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Its name in messages and paths.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// A name of the environment for this signal alone, e.g. `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL`.
    pub fn own_variable(self, what: &str) -> String {
        format!("OTEL_EXPORTER_OTLP_{}_{what}", self.name().to_ascii_uppercase())
    }

    /// The name of the environment that tells whether it is exported: `otlp` or `none`.
    pub fn exporter_variable(self) -> String {
        format!("OTEL_{}_EXPORTER", self.name().to_ascii_uppercase())
    }
}

/// Settings of a host, with what stands in its environment behind them.
#[derive(Clone)]
pub struct Settings {
    /// Base address of the collector; none = the environment's.
    pub endpoint: Option<String>,
    /// None = the environment's, else HTTP.
    pub protocol: Option<Protocol>,
    /// Sent with each export. Their values are secrets.
    pub headers: Vec<(String, String)>,
    /// The signals to export.
    pub signals: Vec<Signal>,
    /// Share of traces that begin here and are recorded; none = the environment's sampler, else all of them.
    pub sample_ratio: Option<f64>,
    /// None = the environment's, else `waybill`.
    pub service_name: Option<String>,
    /// Version of the host.
    pub version: String,
    /// Names this process among others of its kind.
    pub instance: String,
    /// How often metrics are exported; none = the environment's, else every 60 s.
    pub metrics_interval: Option<Duration>,
    /// Upper bounds of a histogram, by its name.
    pub bounds: fn(&str) -> Vec<f64>,
}

impl Settings {
    pub(crate) fn wants(&self, signal: Signal) -> bool {
        self.signals.contains(&signal)
    }

    pub(crate) fn protocol_of(&self, signal: Signal) -> Protocol {
        let names = [signal.own_variable("PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL".to_owned()];
        let of_environment = || names.iter().filter_map(|name| variable(name)).find_map(|name| Protocol::named(&name));
        self.protocol.or_else(of_environment).unwrap_or(Protocol::Http)
    }

    /// Where a signal goes to over HTTP; none = the library asks the environment.
    pub(crate) fn http_endpoint(&self, signal: Signal) -> Option<String> {
        let base = self.endpoint.as_ref()?;
        Some(format!("{}/v1/{}", base.trim_end_matches('/'), signal.name()))
    }

    /// Whether a signal goes out encrypted over gRPC.
    pub(crate) fn is_encrypted(&self, signal: Signal) -> bool {
        let of_environment =
            || variable(&signal.own_variable("ENDPOINT")).or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let endpoint = self.endpoint.clone().or_else(of_environment);
        endpoint.is_some_and(|endpoint| endpoint.to_ascii_lowercase().starts_with("https://"))
    }

    pub(crate) fn resource(&self) -> Resource {
        let attributes = [("service.version", self.version.clone()), ("service.instance.id", self.instance.clone())];
        let attributes = attributes.map(|(name, value)| KeyValue::new(name, value));
        let named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|all| names_service(&all));
        let name = match &self.service_name {
            Some(name) => Some(name.as_str()),
            None if named => None,
            None => Some(SERVICE_NAME),
        };
        // What the environment says of the resource is in the builder already, and goes before what is only ours.
        let of_environment = Resource::builder().build();
        let ours = attributes.into_iter().filter(|attribute| of_environment.get(&attribute.key).is_none());
        let builder = Resource::builder().with_attributes(ours);
        match name {
            Some(name) => builder.with_service_name(name.to_owned()).build(),
            None => builder.build(),
        }
    }
}

fn names_service(attributes: &str) -> bool {
    attributes.split(',').any(|pair| pair.split_once('=').is_some_and(|(name, _)| name.trim() == "service.name"))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings(endpoint: &str) -> Settings {
        Settings {
            endpoint: Some(endpoint.to_owned()),
            protocol: Some(Protocol::Http),
            headers: Vec::new(),
            signals: Signal::ALL.to_vec(),
            sample_ratio: None,
            service_name: Some("shop".to_owned()),
            version: "1".to_owned(),
            instance: "a-1".to_owned(),
            metrics_interval: None,
            bounds: |_| Vec::new(),
        }
    }

    #[test]
    fn a_signal_has_a_path_below_the_endpoint() {
        let of = |endpoint: &str| settings(endpoint).http_endpoint(Signal::Logs);
        assert_eq!(of("http://a:4318").as_deref(), Some("http://a:4318/v1/logs"));
        assert_eq!(of("http://a/otlp/").as_deref(), Some("http://a/otlp/v1/logs"));
    }

    #[test]
    fn names_of_the_environment_are_those_of_the_specification() {
        assert_eq!(Signal::Traces.own_variable("ENDPOINT"), "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        assert_eq!(Signal::Metrics.exporter_variable(), "OTEL_METRICS_EXPORTER");
        assert_eq!(Protocol::named("GRPC"), Some(Protocol::Grpc));
        assert_eq!(Protocol::named("http/json"), None);
    }

    #[test]
    fn the_resource_names_the_service_and_this_process() {
        let resource = settings("http://a").resource();
        let of = |name: &'static str| resource.get(&name.into()).map(|value| value.to_string());
        assert_eq!(of("service.name").as_deref(), Some("shop"));
        assert_eq!(of("service.instance.id").as_deref(), Some("a-1"));
        assert!(names_service("a=b, service.name=x") && !names_service("a=service.name"));
    }
}
