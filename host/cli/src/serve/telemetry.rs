//! What is exported to an OpenTelemetry collector, by a configuration.

use std::time::Duration;

use async_trait::async_trait;
use waybill_core::code::Code;
use waybill_server::metrics::{Counted, Counting, bounds};
use waybill_telemetry::{Reading, Readings, Settings, Telemetry};

use super::compose::{host_name, secret};
use crate::config::Config;
use crate::exit::{CliError, Exit};
use crate::term::Term;

/// Time at the end for what isn't exported yet. A collector that doesn't answer holds the host no longer.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Builds it where it is asked for. Within the runtime.
pub fn build(config: &Config, term: &Term) -> Result<Option<Telemetry>, CliError> {
    let Some(otel) = &config.otel else { return Ok(None) };
    let header = |(name, reference): &(String, String)| -> Result<(String, String), CliError> {
        Ok((name.clone(), secret(reference, term)?))
    };
    let settings = Settings {
        endpoint: otel.endpoint.clone(),
        protocol: otel.protocol,
        headers: otel.headers.iter().map(header).collect::<Result<_, CliError>>()?,
        signals: otel.signals.clone(),
        sample_ratio: otel.sample_ratio,
        service_name: otel.service_name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: format!("{}-{}", host_name(), std::process::id()),
        metrics_interval: otel.metrics_interval,
        bounds,
    };
    let failed = |error: waybill_telemetry::BuildError| CliError::Host {
        code: Code::CONFIG_BAD_VALUE,
        what: format!("{error}: correct [otel], or the OTEL_ names of the environment (docs/configuration.md)"),
        exit: Exit::Usage,
    };
    Telemetry::build(&settings).map(Some).map_err(failed)
}

/// What `/metrics` counts, as exports have it.
pub struct AsExported(pub Counting);

#[async_trait]
impl Readings for AsExported {
    async fn read(&self) -> Vec<Reading> {
        let reading = |Counted { name, help, series }| Reading { name, help, series };
        self.0.count().await.into_iter().map(reading).collect()
    }
}

/// Exports what waits, and says what could not be.
pub async fn end(telemetry: Telemetry) {
    let lost = telemetry.shutdown(END_TIMEOUT).await;
    if lost.spans > 0 || lost.logs > 0 || lost.is_cut {
        tracing::warn!(
            target: "waybill::otel",
            spans = lost.spans,
            logs = lost.logs,
            in_time = !lost.is_cut,
            "not everything was exported to the collector"
        );
    }
}
