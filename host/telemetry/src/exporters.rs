//! The exporters of the three signals.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_http::HttpClient;
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    LogExporter, MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};

use crate::BuildError;
use crate::http_client::Client;
use crate::settings::{Protocol, Settings, Signal};

/// What the builders of all three have in common: they are of different types with the same methods.
macro_rules! exporter {
    ($exporter:ty, $signal:expr, $settings:expr, $client:expr) => {{
        let (signal, settings): (Signal, &Settings) = ($signal, $settings);
        let built = match settings.protocol_of(signal) {
            Protocol::Http => {
                let client: Arc<dyn HttpClient> = $client.clone();
                let mut builder = <$exporter>::builder()
                    .with_http()
                    .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                    .with_shared_http_client(client);
                if let Some(endpoint) = settings.http_endpoint(signal) {
                    builder = builder.with_endpoint(endpoint);
                }
                if !settings.headers.is_empty() {
                    builder = builder.with_headers(settings.headers.iter().cloned().collect::<HashMap<_, _>>());
                }
                builder.build()
            }
            Protocol::Grpc => {
                let mut builder = <$exporter>::builder().with_tonic();
                if let Some(endpoint) = &settings.endpoint {
                    builder = builder.with_endpoint(endpoint.clone());
                }
                if settings.is_encrypted(signal) {
                    builder = builder.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
                }
                if !settings.headers.is_empty() {
                    builder = builder.with_metadata(metadata(signal, &settings.headers)?);
                }
                builder.build()
            }
        };
        built.map_err(|error| failed(signal, error))
    }};
}

pub(crate) fn spans(settings: &Settings, client: &Arc<Client>) -> Result<SpanExporter, BuildError> {
    exporter!(SpanExporter, Signal::Traces, settings, client)
}

pub(crate) fn metrics(settings: &Settings, client: &Arc<Client>) -> Result<MetricExporter, BuildError> {
    exporter!(MetricExporter, Signal::Metrics, settings, client)
}

pub(crate) fn logs(settings: &Settings, client: &Arc<Client>) -> Result<LogExporter, BuildError> {
    exporter!(LogExporter, Signal::Logs, settings, client)
}

fn failed(signal: Signal, cause: impl Display) -> BuildError {
    BuildError { signal: signal.name(), cause: cause.to_string() }
}

/// Headers as gRPC has them. What can't be one isn't shown: it may be a secret.
fn metadata(signal: Signal, headers: &[(String, String)]) -> Result<MetadataMap, BuildError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let wrong = |what: &str| failed(signal, format!("otel.headers.{name}: {what}"));
        let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong("this isn't the name of a header"))?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|_| wrong("its value can't be that of a header"))?;
        map.insert(key, value);
    }
    Ok(MetadataMap::from_headers(map))
}
