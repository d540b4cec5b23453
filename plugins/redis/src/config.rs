//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_plugin::broker::{self, Common, Scheme, Tls, positive};
use waybill_plugin::transport::PluginError;
use waybill_redis_wire as wire;

use crate::provision::Wanted;
use crate::template::Template;

pub(crate) type Config = broker::Config<Keys>;

/// The keys beside those of every broker. Servers are tried in the order in which they are listed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// Template of a stream's key.
    stream: String,
    /// Number of the database.
    pub(crate) db: u32,
    /// Whether streams are made that aren't there.
    pub(crate) create_streams: bool,
    /// What is taken away at the old end.
    pub(crate) trim: Trim,
    /// Whether ids are remembered.
    pub(crate) dedup: Dedup,
    /// Milliseconds for which they are.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) dedup_window: u32,
    /// Replicas that must have a message.
    pub(crate) wait_replicas: u32,
    /// Milliseconds for which they are waited for.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) wait_timeout: u32,
    /// Milliseconds of silence after which what isn't answered is given up for this time.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
    /// Milliseconds between two pings of an idle connection.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ping_every: u32,
    /// What is created at the server when the operator asks for it.
    pub(crate) provision: Option<Wanted>,
}

/// What is taken away at the old end of a stream with every message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Trim {
    /// How many of the newest entries stay.
    pub(crate) max_len: Option<u64>,
    /// Milliseconds for which entries stay.
    #[serde(deserialize_with = "some_millis")]
    pub(crate) max_age: Option<u32>,
    /// Trim to exactly that bound; else Redis may keep a few more, which costs it less.
    pub(crate) exact: bool,
}

fn some_millis<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    waybill_plugin::config::millis(input).map(Some)
}

/// Whether ids are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Dedup {
    Off,
    Window,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            stream: "{destination}".to_owned(),
            db: 0,
            create_streams: true,
            trim: Trim::default(),
            dedup: Dedup::Off,
            dedup_window: 3_600_000,
            wait_replicas: 0,
            wait_timeout: 1_000,
            ack_timeout: 5_000,
            ping_every: 30_000,
            provision: None,
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = wire::SCHEME;

    fn check(&self, common: &Common) -> Result<(), PluginError> {
        let wrong = |path: &str, why: &str| Err(PluginError::invalid_config(path, why));
        self.template()?;
        positive(&[
            ("ack_timeout", self.ack_timeout),
            ("ping_every", self.ping_every),
            ("dedup_window", self.dedup_window),
            ("wait_timeout", self.wait_timeout),
            ("trim.max_age", self.trim.max_age.unwrap_or(1)),
            ("trim.max_len", self.trim.max_len.map_or(1, |len| u32::try_from(len).unwrap_or(u32::MAX))),
        ])?;
        if self.wait_replicas > 0 && self.wait_timeout >= self.ack_timeout {
            let why = "is no shorter than `ack_timeout`: the connection would be given up while the server waits";
            return wrong("wait_timeout", why);
        }
        if self.trim.max_len.is_some() && self.trim.max_age.is_some() {
            return wrong("trim", "has max_len and max_age: Redis trims by one of them");
        }
        let secure = common.addresses(&Self::SCHEME)?.iter().position(|address| address.tls);
        match (common.tls, secure) {
            (Tls::Off, Some(place)) => {
                wrong(&format!("servers[{place}]"), "is rediss:// and `tls` is off: write redis:// or leave `tls` out")
            }
            _ => Ok(()),
        }
    }
}

impl Keys {
    /// The key of a message's stream.
    pub(crate) fn template(&self) -> Result<Template, PluginError> {
        Template::parse(&self.stream).map_err(|why| PluginError::invalid_config("stream", &why))
    }

    /// Milliseconds for which ids are remembered; none if they aren't.
    pub(crate) fn remembers(&self) -> Option<u32> {
        (self.dedup == Dedup::Window).then_some(self.dedup_window)
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
        assert_eq!((config.common.connections, config.common.window, config.own.ack_timeout), (2, 256, 5_000));
        assert_eq!(config.addresses().unwrap().first().unwrap().uri(), "tcp://127.0.0.1:6379");
        assert_eq!((config.own.remembers(), config.own.wait_replicas), (None, 0));
        assert_eq!(checked(r#"{"dedup":"window","dedup_window":"2h"}"#).unwrap().own.remembers(), Some(7_200_000));
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{"servers":[]}"#, "servers"),
            (r#"{"servers":["redis://a:1","redis://user:secret@a:1"]}"#, "servers[1]"),
            (r#"{"servers":["nats://a:1"]}"#, "servers[0]"),
            (r#"{"servers":["rediss://a:1"],"tls":"off"}"#, "servers[0]"),
            (r#"{"window":0}"#, "window"),
            (r#"{"connections":0}"#, "connections"),
            (r#"{"ack_timeout":"0s"}"#, "ack_timeout"),
            (r#"{"dedup_window":0}"#, "dedup_window"),
            (r#"{"stream":"{unknown}"}"#, "stream"),
            (r#"{"stream":""}"#, "stream"),
            (r#"{"trim":{"max_len":1,"max_age":"1h"}}"#, "trim"),
            (r#"{"trim":{"max_len":0}}"#, "trim.max_len"),
            (r#"{"trim":{"max_age":"soon"}}"#, "trim.max_age"),
            (r#"{"wait_replicas":1,"wait_timeout":"5s"}"#, "wait_timeout"),
            (r#"{"dedup":"forever"}"#, "dedup"),
            (r#"{"tls":"maybe"}"#, "tls"),
            (r#"{"server":"a"}"#, "server"),
            (r#"{"provision":{"groups":[{"stream":"a"}]}}"#, "provision.groups[0]"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
