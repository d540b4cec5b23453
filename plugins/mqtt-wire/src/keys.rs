//! Settings that the transport and the source have in common.

use serde::Deserialize;
use waybill_plugin::broker::{Common, Scheme, Tls};
use waybill_plugin::transport::PluginError;

/// How addresses of servers are written.
pub const SCHEME: Scheme = Scheme { plain: "mqtt", tls: "mqtts", port: 1883, tls_port: 8883 };

/// Longest silence on our side that a server is asked to bear, in milliseconds.
pub const KEEP_ALIVE_MS: u32 = 60_000;
/// The protocol counts it in seconds, with 16 bits.
const KEEP_ALIVE_SECONDS_MAX: u32 = 65_535;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 3.1.1: without properties and reasons.
    V311,
    /// 5.
    V5,
}

impl Version {
    /// As an operator reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V311 => "MQTT 3.1.1",
            Self::V5 => "MQTT 5",
        }
    }
}

/// Which version is spoken: the key `version`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Protocol {
    /// 5, and 3.1.1 with a server that doesn't know it.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// 5 only.
    #[serde(rename = "5")]
    V5,
    /// 3.1.1 only.
    #[serde(rename = "3.1.1")]
    V311,
}

impl Protocol {
    /// The version to begin with.
    pub fn first(self) -> Version {
        match self {
            Self::Auto | Self::V5 => Version::V5,
            Self::V311 => Version::V311,
        }
    }
}

/// Where a message's envelope goes: the key `body`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// Into properties where there are some, else into a structured CloudEvent.
    #[default]
    Auto,
    /// Into properties, or nowhere: the body is the payload.
    Plain,
    /// The body is a structured CloudEvent.
    Cloudevent,
}

/// Seconds for a number of milliseconds, rounded up; 0 stays 0.
pub fn seconds(millis: u32) -> u32 {
    millis.div_ceil(1_000)
}

/// Seconds of silence that a server is asked to bear.
pub fn keep_alive_seconds(millis: u32) -> u16 {
    u16::try_from(seconds(millis)).unwrap_or(u16::MAX)
}

/// Checks what both have.
///
/// # Errors
/// The first mistake, with its place.
pub fn check(common: &Common, keep_alive: u32) -> Result<(), PluginError> {
    if seconds(keep_alive) > KEEP_ALIVE_SECONDS_MAX {
        return Err(PluginError::invalid_config("keep_alive", "is more than 18 hours: the protocol has no larger one"));
    }
    let secure = common.addresses(&SCHEME)?.iter().position(|address| address.tls);
    match (common.tls, secure) {
        (Tls::Off, Some(place)) => Err(PluginError::invalid_config(
            &format!("servers[{place}]"),
            "is mqtts:// and `tls` is off: write mqtt:// or leave `tls` out",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_never_fewer_than_asked_for() {
        assert_eq!([0, 1, 1_000, 1_001].map(seconds), [0, 1, 1, 2]);
        assert_eq!(keep_alive_seconds(u32::MAX), u16::MAX);
    }
}
