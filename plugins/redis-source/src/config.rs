//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_plugin::broker::{self, Common, Scheme, positive};
use waybill_plugin::transport::PluginError;
use waybill_redis_wire::group::{Group, from_the_start};

pub(crate) type Config = broker::Config<Keys>;

/// Longest key of a stream, in bytes: with an entry's id behind it, it names messages, and a name has 512 bytes at most.
const STREAM_BYTES_MAX: usize = 470;

/// The keys beside those of every broker. Servers are tried in the order in which they are listed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// Key of the stream.
    pub(crate) stream: String,
    /// The consumer group to read it through.
    #[serde(alias = "durable")]
    pub(crate) group: String,
    /// Our name in the group; none = made of the source's name and the instance's number.
    #[serde(alias = "consumer_name")]
    pub(crate) consumer: Option<String>,
    /// After which entry a group made by us begins.
    pub(crate) start: String,
    /// Milliseconds after which what another consumer hasn't settled is taken from it.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_wait: u32,
    /// Field with the payload. An entry without it is handed over as a JSON object of its fields.
    pub(crate) payload_field: String,
    /// Number of the database.
    pub(crate) db: u32,
    /// Milliseconds of silence after which what isn't answered is given up for this time.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
    /// Milliseconds between two pings of an idle connection.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ping_every: u32,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            stream: String::new(),
            group: "waybill".to_owned(),
            consumer: None,
            start: from_the_start(),
            ack_wait: 30_000,
            payload_field: "payload".to_owned(),
            db: 0,
            ack_timeout: 5_000,
            ping_every: 30_000,
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = waybill_redis_wire::SCHEME;

    fn check(&self, _: &Common) -> Result<(), PluginError> {
        let wrong = |path: &str, why: &str| Err(PluginError::invalid_config(path, why));
        positive(&[("ack_wait", self.ack_wait), ("ack_timeout", self.ack_timeout), ("ping_every", self.ping_every)])?;
        let consumer = self.consumer.as_deref().unwrap_or("a");
        for (path, name) in [("stream", self.stream.as_str()), ("group", &self.group), ("consumer", consumer)] {
            if name.is_empty() {
                return wrong(path, "is empty: name it");
            }
            if name.chars().any(char::is_control) {
                return wrong(path, "holds a control character");
            }
        }
        if self.stream.len() > STREAM_BYTES_MAX {
            return wrong("stream", "has more than 470 bytes: what has no id of its own is named by it");
        }
        if self.payload_field.is_empty() {
            return wrong("payload_field", "is empty: name it");
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (millis, number) = self.start.split_once('-').unwrap_or((&self.start, "0"));
        if self.start != "$" && !(is_number(millis) && is_number(number)) {
            return wrong("start", "is no entry: write 0 for all, $ for what comes from then on, or an entry's id");
        }
        Ok(())
    }
}

impl Keys {
    /// Our name in the group. It stays the same over restarts, so that what this consumer left behind is read first.
    pub(crate) fn consumer(&self, source: &str, instance: u32) -> String {
        let name = self.consumer.clone().unwrap_or_else(|| format!("waybill-{source}"));
        if instance == 0 { name } else { format!("{name}-{instance}") }
    }

    /// The group as it is provisioned.
    pub(crate) fn wanted(&self) -> Group {
        Group { stream: self.stream.clone(), group: self.group.clone(), start: self.start.clone() }
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
    fn a_stream_is_enough_and_instances_have_names_of_their_own() {
        let config = checked(r#"{"stream":"orders"}"#).unwrap();
        assert_eq!((config.own.group.as_str(), config.own.start.as_str()), ("waybill", "0"));
        assert_eq!([0, 1].map(|instance| config.own.consumer("shop", instance)), ["waybill-shop", "waybill-shop-1"]);
        let named = checked(r#"{"stream":"orders","durable":"billing","consumer_name":"a"}"#).unwrap();
        assert_eq!((named.own.group.as_str(), named.own.consumer("shop", 0).as_str()), ("billing", "a"));
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        let long = "s".repeat(471);
        for (json, path) in [
            (r#"{}"#, "stream"),
            (&format!(r#"{{"stream":"{long}"}}"#), "stream"),
            (r#"{"stream":"a\nb"}"#, "stream"),
            (r#"{"stream":"a","group":""}"#, "group"),
            (r#"{"stream":"a","consumer":""}"#, "consumer"),
            (r#"{"stream":"a","start":"yesterday"}"#, "start"),
            (r#"{"stream":"a","ack_wait":"0s"}"#, "ack_wait"),
            (r#"{"stream":"a","payload_field":""}"#, "payload_field"),
            (r#"{"stream":"a","topic":"b"}"#, "topic"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
        for start in ["0", "$", "1700000000000", "1700000000000-3"] {
            assert!(checked(&format!(r#"{{"stream":"a","start":"{start}"}}"#)).is_ok(), "{start}");
        }
    }
}
