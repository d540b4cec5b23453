//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_nats_wire::Auth;
use waybill_nats_wire::keys::{self, Client, ClientKeys};
use waybill_plugin::broker::{self, Common, Order, Scheme, positive};
use waybill_plugin::transport::PluginError;

use crate::provision::Wanted;

pub(crate) type Config = broker::Config<Keys>;

/// The keys beside those of every broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// In which order servers are tried.
    order: Order,
    /// Whether servers that a server tells about are tried as well.
    pub(crate) discover: bool,
    /// The stream that every message has to land in.
    pub(crate) stream: Option<String>,
    /// Which credentials are used.
    pub(crate) auth: Auth,
    /// Milliseconds of silence after which what isn't acknowledged is given up for this time.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
    /// Milliseconds between two pings of an idle connection.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ping_every: u32,
    /// First tokens of the subjects that answers come to.
    pub(crate) inbox_prefix: String,
    /// What is created at the server when the operator asks for it.
    pub(crate) provision: Option<Wanted>,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            order: Order::Random,
            discover: true,
            stream: None,
            auth: Auth::Auto,
            ack_timeout: 5_000,
            ping_every: 30_000,
            inbox_prefix: keys::INBOX_PREFIX.to_owned(),
            provision: None,
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = keys::SCHEME;

    fn order(&self) -> Order {
        self.order
    }

    fn check(&self, _: &Common) -> Result<(), PluginError> {
        positive(&[("ack_timeout", self.ack_timeout), ("ping_every", self.ping_every)])?;
        let named = self.provision.as_ref().and_then(|wanted| wanted.stream.name.as_ref());
        for (path, stream) in [("stream", self.stream.as_ref()), ("provision.stream.name", named)] {
            if let Some(stream) = stream {
                keys::check_name(path, stream)?;
            }
        }
        if self.provision.is_some() && named.or(self.stream.as_ref()).is_none() {
            return Err(PluginError::invalid_config("provision.stream.name", "is missing: name it, or set `stream`"));
        }
        keys::check_inbox_prefix(&self.inbox_prefix)
    }
}

impl ClientKeys for Keys {
    fn client(&self) -> Client<'_> {
        Client {
            auth: self.auth,
            discover: self.discover,
            inbox_prefix: &self.inbox_prefix,
            ping_timeout: self.ack_timeout,
        }
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
        assert_eq!(config.addresses().unwrap().first().unwrap().uri(), "tcp://127.0.0.1:4222");
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{"servers":[]}"#, "servers"),
            (r#"{"servers":["nats://a:1","nats://user:secret@a:1"]}"#, "servers[1]"),
            (r#"{"window":0}"#, "window"),
            (r#"{"connections":0}"#, "connections"),
            (r#"{"ack_timeout":"0s"}"#, "ack_timeout"),
            (r#"{"stream":"a.b"}"#, "stream"),
            (r#"{"stream":""}"#, "stream"),
            (r#"{"inbox_prefix":"a b"}"#, "inbox_prefix"),
            (r#"{"auth":"magic"}"#, "auth"),
            (r#"{"tls":"maybe"}"#, "tls"),
            (r#"{"server":"a"}"#, "server"),
            (r#"{"provision":{"stream":{"subjects":["a"]}}}"#, "provision.stream.name"),
            (
                r#"{"stream":"A","provision":{"stream":{"subjects":["a"],"max_age":"soon"}}}"#,
                "provision.stream.max_age",
            ),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
