//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::{Deserialize, Deserializer};
use waybill_nats_wire::Auth;
use waybill_nats_wire::keys::{self, Client, ClientKeys};
use waybill_nats_wire::stream::Stream;
use waybill_plugin::broker::{self, Common, Order, Scheme, positive};
use waybill_plugin::transport::PluginError;

pub(crate) type Config = broker::Config<Keys>;

/// The keys beside those of every broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// In which order servers are tried.
    order: Order,
    /// Whether servers that a server tells about are tried as well.
    pub(crate) discover: bool,
    /// The stream to read.
    pub(crate) stream: String,
    /// The durable consumer to read it through; none = one that lives as long as the source.
    #[serde(alias = "durable", alias = "consumer_name")]
    pub(crate) consumer: Option<String>,
    /// Which of the stream's subjects are read; empty = all of them.
    #[serde(alias = "filter_subject", deserialize_with = "one_or_many")]
    pub(crate) filter_subjects: Vec<String>,
    /// Milliseconds after which a consumer made by us delivers again what isn't settled.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_wait: u32,
    /// Deliveries of one message that a consumer made by us allows; -1 = any number.
    pub(crate) max_deliver: i64,
    /// Messages that a consumer made by us has unsettled at most; none = as the server likes.
    pub(crate) max_ack_pending: Option<u32>,
    /// Which credentials are used.
    pub(crate) auth: Auth,
    /// Milliseconds of silence after which what isn't answered is given up for this time.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
    /// Milliseconds between two pings of an idle connection.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ping_every: u32,
    /// First tokens of the subjects that answers come to.
    pub(crate) inbox_prefix: String,
    /// What is created at the server beside the consumer when the operator asks for it.
    pub(crate) provision: Option<Wanted>,
}

/// What is wanted at the server beside the consumer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) stream: Stream,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            order: Order::Random,
            discover: true,
            stream: String::new(),
            consumer: None,
            filter_subjects: Vec::new(),
            ack_wait: 30_000,
            max_deliver: -1,
            max_ack_pending: None,
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
        let wrong = |path: &str, why: &str| Err(PluginError::invalid_config(path, why));
        keys::check_name("stream", &self.stream)?;
        if let Some(consumer) = &self.consumer {
            keys::check_name("consumer", consumer)?;
        }
        positive(&[
            ("ack_wait", self.ack_wait),
            ("ack_timeout", self.ack_timeout),
            ("ping_every", self.ping_every),
            ("max_ack_pending", self.max_ack_pending.unwrap_or(1)),
        ])?;
        if self.max_deliver == 0 || self.max_deliver < -1 {
            return wrong("max_deliver", "is no number of deliveries: write 1 or more, or -1 for any number");
        }
        if self.filter_subjects.iter().any(|subject| !is_pattern(subject)) {
            return wrong("filter_subjects", "holds what is no subject or pattern of subjects");
        }
        if let Some(name) = self.provision.as_ref().and_then(|wanted| wanted.stream.name.as_ref())
            && *name != self.stream
        {
            return wrong("provision.stream.name", "is another stream than `stream`");
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

/// Tokens between dots; `*` is one, `>` the rest.
fn is_pattern(subject: &str) -> bool {
    let tokens: Vec<&str> = subject.split('.').collect();
    let last = tokens.len() - 1;
    let is_token = |(place, token): (usize, &&str)| {
        !token.is_empty()
            && !token.contains(|letter: char| letter.is_whitespace() || letter.is_control())
            && (*token != ">" || place == last)
    };
    tokens.iter().enumerate().all(is_token)
}

/// A text, or a list of them.
fn one_or_many<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a subject or a list of subjects")]
    enum Either {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Either::deserialize(input)? {
        Either::One(subject) => vec![subject],
        Either::Many(subjects) => subjects,
    })
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
    fn a_stream_is_enough() {
        let config = checked(r#"{"stream":"ORDERS"}"#).unwrap();
        assert_eq!((config.own.ack_wait, config.own.max_deliver, config.own.max_ack_pending), (30_000, -1, None));
        assert!(config.own.consumer.is_none() && config.own.filter_subjects.is_empty());
    }

    #[test]
    fn a_consumer_is_set_by_any_of_its_names() {
        for name in ["consumer", "durable", "consumer_name"] {
            let config = checked(&format!(r#"{{"stream":"ORDERS","{name}":"sea__from_vibespro"}}"#)).unwrap();
            assert_eq!(config.own.consumer.as_deref(), Some("sea__from_vibespro"));
        }
        for (json, expected) in [
            (r#"{"stream":"A","filter_subject":"vibespro.event.>"}"#, &["vibespro.event.>"][..]),
            (r#"{"stream":"A","filter_subjects":["a.*","b"]}"#, &["a.*", "b"]),
        ] {
            assert_eq!(checked(json).unwrap().own.filter_subjects, expected);
        }
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{}"#, "stream"),
            (r#"{"stream":"a.b"}"#, "stream"),
            (r#"{"stream":"A","durable":"a b"}"#, "consumer"),
            (r#"{"stream":"A","ack_wait":"0s"}"#, "ack_wait"),
            (r#"{"stream":"A","max_deliver":0}"#, "max_deliver"),
            (r#"{"stream":"A","max_deliver":-2}"#, "max_deliver"),
            (r#"{"stream":"A","max_ack_pending":0}"#, "max_ack_pending"),
            (r#"{"stream":"A","filter_subject":"a..b"}"#, "filter_subjects"),
            (r#"{"stream":"A","filter_subject":"a.>.b"}"#, "filter_subjects"),
            (r#"{"stream":"A","filter_subject":7}"#, "filter_subject"),
            (r#"{"stream":"A","provision":{"stream":{"name":"B","subjects":["b"]}}}"#, "provision.stream.name"),
            (r#"{"stream":"A","inbox_prefix":"a b"}"#, "inbox_prefix"),
            (r#"{"stream":"A","subject":"a"}"#, "subject"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
