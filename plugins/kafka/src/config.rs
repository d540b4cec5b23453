//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_kafka_wire::compression::Compression;
use waybill_kafka_wire::provision::Wanted;
use waybill_kafka_wire::{self as wire, Sasl};
use waybill_plugin::broker::{self, Common, Order, Scheme, Tls, positive};
use waybill_plugin::transport::PluginError;

use crate::topic::Template;

pub(crate) type Config = broker::Config<Keys>;

/// The keys beside those of every broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// In which order servers are tried.
    order: Order,
    /// Template of a topic's name.
    topic: String,
    /// Whether topics are asked for in the way that makes them.
    pub(crate) create_topics: Create,
    /// How batches are made smaller.
    pub(crate) compression: Compression,
    /// Most bytes of a batch without compression; a larger message is one by itself.
    pub(crate) batch_bytes: u32,
    /// How servers are told who we are.
    pub(crate) sasl: Sasl,
    /// Milliseconds for one answer of a server.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
    /// Milliseconds between two pings of an idle client.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ping_every: u32,
    /// What is created when the operator asks for it.
    pub(crate) provision: Option<Topics>,
}

/// Who makes topics that aren't there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Create {
    /// The cluster, where it allows that.
    Broker,
    /// Nobody: such a destination is blocked.
    Never,
}

/// What is wanted in the cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topics {
    pub(crate) topics: Vec<Wanted>,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            order: Order::Random,
            topic: "{destination}".to_owned(),
            create_topics: Create::Broker,
            compression: Compression::None,
            batch_bytes: 1_000_000,
            sasl: Sasl::Auto,
            ack_timeout: 10_000,
            ping_every: 30_000,
            provision: None,
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = wire::SCHEME;

    fn order(&self) -> Order {
        self.order
    }

    fn check(&self, common: &Common) -> Result<(), PluginError> {
        self.template()?;
        positive(&[
            ("batch_bytes", self.batch_bytes),
            ("ack_timeout", self.ack_timeout),
            ("ping_every", self.ping_every),
        ])?;
        let secure = common.addresses(&Self::SCHEME)?.iter().position(|address| address.tls);
        match (common.tls, secure) {
            (Tls::Off, Some(place)) => Err(PluginError::invalid_config(
                &format!("servers[{place}]"),
                "is kafkas:// and `tls` is off: write kafka:// or leave `tls` out",
            )),
            _ => Ok(()),
        }
    }
}

impl Keys {
    /// The name of a message's topic.
    pub(crate) fn template(&self) -> Result<Template, PluginError> {
        Template::parse(&self.topic).map_err(|why| PluginError::invalid_config("topic", &why))
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
        assert_eq!(config.addresses().unwrap().first().unwrap().uri(), "tcp://127.0.0.1:9092");
        assert_eq!((config.own.create_topics, config.own.compression), (Create::Broker, Compression::None));
        let config = checked(r#"{"servers":["a:1"],"compression":"zstd","sasl":"scram-sha-512"}"#).unwrap();
        assert_eq!((config.own.compression, config.own.sasl), (Compression::Zstd, Sasl::ScramSha512));
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{"servers":[]}"#, "servers"),
            (r#"{"servers":["kafka://user:secret@a:1"]}"#, "servers[0]"),
            (r#"{"servers":["a","kafkas://a:1"],"tls":"off"}"#, "servers[1]"),
            (r#"{"topic":"{unknown}"}"#, "topic"),
            (r#"{"batch_bytes":0}"#, "batch_bytes"),
            (r#"{"ack_timeout":"0s"}"#, "ack_timeout"),
            (r#"{"compression":"bzip2"}"#, "compression"),
            (r#"{"create_topics":"always"}"#, "create_topics"),
            (r#"{"provision":{"topics":[{"partitions":1}]}}"#, "provision.topics[0]"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
