//! Traces, metrics and logs to an OpenTelemetry collector.
