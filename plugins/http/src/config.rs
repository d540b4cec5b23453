//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use std::collections::BTreeMap;

use serde::Deserialize;
use waybill_plugin::transport::PluginError;

use crate::request;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Milliseconds for one whole exchange. Standard Webhooks asks for 15 to 30 s.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) timeout: u32,
    /// Method of every request.
    pub(crate) method: Method,
    /// Headers of every request; they win over a message's own.
    pub(crate) headers: BTreeMap<String, String>,
    /// Requests in flight at once in one instance.
    concurrency: u32,
    /// Messages in one call. Small, because a call ends with its slowest message.
    max_batch: u32,
    /// Whether to open without keys.
    pub(crate) signing: Signing,
}

/// Method of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Method {
    Post,
    Put,
    Patch,
}

impl Method {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
        }
    }
}

/// Whether to open without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Signing {
    Auto,
    Required,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            timeout: 30_000,
            method: Method::Post,
            headers: BTreeMap::new(),
            concurrency: 512,
            max_batch: 32,
            signing: Signing::Auto,
        }
    }
}

impl Config {
    /// Checks what the types can't say.
    pub(crate) fn check(&self) -> Result<(), PluginError> {
        if self.timeout == 0 {
            return Err(PluginError::invalid_config("timeout", "is 0: write at least 1ms"));
        }
        if self.concurrency == 0 {
            return Err(PluginError::invalid_config("concurrency", "is 0: write at least 1"));
        }
        if self.max_batch == 0 {
            return Err(PluginError::invalid_config("max_batch", "is 0: write at least 1"));
        }
        for (name, value) in &self.headers {
            let path = format!("headers.{name}");
            if !request::is_header_name(name) {
                return Err(PluginError::invalid_config(&path, "is no valid header name"));
            }
            if request::is_reserved(name) {
                return Err(PluginError::invalid_config(&path, "is set by Waybill or the connection: leave it out"));
            }
            if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
                return Err(PluginError::invalid_config(&path, "must be printable ASCII"));
            }
        }
        Ok(())
    }

    /// Messages in one call.
    pub(crate) fn batch(&self) -> u32 {
        self.max_batch.min(self.concurrency)
    }

    /// Calls at once, so that their requests together stay within `concurrency`.
    pub(crate) fn calls(&self) -> u32 {
        self.concurrency.checked_div(self.batch()).unwrap_or(1).max(1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn checked(json: &str) -> Result<Config, String> {
        let config: Config = waybill_plugin::config::parse(json).map_err(|error| error.path)?;
        config.check().map_err(|error| error.fault.attributes.into_iter().map(|(_, path)| path).collect::<String>())?;
        Ok(config)
    }

    #[test]
    fn an_empty_document_is_the_defaults() {
        let config = checked("{}").unwrap();
        assert_eq!((config.timeout, config.method.as_str(), config.batch(), config.calls()), (30_000, "POST", 32, 16));
    }

    #[test]
    fn requests_in_flight_stay_within_the_concurrency() {
        for (json, batch, calls) in [
            (r#"{"concurrency":1}"#, 1, 1),
            (r#"{"concurrency":10,"max_batch":100}"#, 10, 1),
            (r#"{"concurrency":100,"max_batch":30}"#, 30, 3),
        ] {
            let config = checked(json).unwrap();
            assert_eq!((config.batch(), config.calls()), (batch, calls), "{json}");
        }
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{"timeout":"0s"}"#, "timeout"),
            (r#"{"timeout":"soon"}"#, "timeout"),
            (r#"{"method":"GET"}"#, "method"),
            (r#"{"methode":"PUT"}"#, "methode"),
            (r#"{"concurrency":0}"#, "concurrency"),
            (r#"{"max_batch":0}"#, "max_batch"),
            (r#"{"signing":"off"}"#, "signing"),
            (r#"{"headers":{"x y":"1"}}"#, "headers.x y"),
            (r#"{"headers":{"Waybill-Attempt":"1"}}"#, "headers.Waybill-Attempt"),
            (r#"{"headers":{"x-a":"a\r\nb: c"}}"#, "headers.x-a"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
