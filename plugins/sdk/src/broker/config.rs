//! The configuration document of a broker: the keys that every broker has, in one object with those of its own.
//!
//! Flattening by serde would keep the document until its end, and an error in it would have lost its place. Here each key goes
//! where it belongs as it is read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::StringDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

use super::{Address, Scheme};
use crate::config::Millis;
use crate::transport::PluginError;

/// A broker's configuration document.
#[derive(Clone, Debug)]
pub struct Config<K> {
    /// What every broker has.
    pub common: Common,
    /// What this one has besides.
    pub own: K,
}

/// A broker's own keys: a struct with `#[serde(deny_unknown_fields, default)]`.
pub trait Keys: Default + DeserializeOwned {
    /// How its addresses are written. Without `servers` it is looked for on this machine.
    const SCHEME: Scheme;

    /// In which order servers are tried.
    fn order(&self) -> Order {
        Order::Listed
    }

    /// Where the servers are, for a protocol that names them by a key of its own.
    ///
    /// # Errors
    /// There is none, or one whose address can't be read.
    fn addresses(&self, common: &Common) -> Result<Vec<Address>, PluginError> {
        common.addresses(&Self::SCHEME)
    }

    /// Checks what the types can't say.
    ///
    /// # Errors
    /// The first mistake, with its place.
    fn check(&self, common: &Common) -> Result<(), PluginError>;
}

/// The keys of every broker.
#[derive(Clone, Debug)]
pub struct Common {
    /// Where the servers are.
    servers: Vec<String>,
    /// Whether and when TLS begins.
    pub tls: Tls,
    /// Name to verify in the server's certificate; none = the host of its address.
    pub tls_server_name: Option<String>,
    /// Connections of one instance: as many calls run at once.
    pub connections: u32,
    /// Messages without acknowledgement on one connection.
    pub window: u32,
    /// Milliseconds for connecting to one server.
    pub connect_timeout: u32,
}

/// In which order servers are tried: the key `order` of brokers whose servers are equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Shuffled once in each instance, which spreads the load.
    Random,
    /// The first one that answers.
    Listed,
}

/// Whether and when TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// Where the address has the scheme for it, a CA or client certificate is granted, or the server asks for it.
    Auto,
    /// To every server, whatever the scheme of its address.
    Required,
    /// From the first byte, for a protocol that otherwise begins in plain text; the manifests of others leave it out.
    First,
    /// To no server, whatever the scheme of its address.
    Off,
}

/// Names of the fields of [`Common`], as [`Common::read`] knows them.
const KEYS: [&str; 6] = ["servers", "tls", "tls_server_name", "connections", "window", "connect_timeout"];

impl Common {
    fn new(scheme: &Scheme) -> Self {
        Self {
            servers: vec![format!("{}://127.0.0.1:{}", scheme.plain, scheme.port)],
            tls: Tls::Auto,
            tls_server_name: None,
            connections: 2,
            window: 256,
            connect_timeout: 5_000,
        }
    }

    /// Reads the value of one of [`KEYS`].
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "servers" => self.servers = map.next_value()?,
            "tls" => self.tls = map.next_value()?,
            "tls_server_name" => self.tls_server_name = map.next_value()?,
            "connections" => self.connections = map.next_value()?,
            "window" => self.window = map.next_value()?,
            "connect_timeout" => self.connect_timeout = map.next_value::<Millis>()?.0,
            _ => return Err(A::Error::custom(format!("`{key}` is no key of every broker"))),
        }
        Ok(())
    }

    /// Where the servers are.
    ///
    /// # Errors
    /// There is none, or one whose address can't be read.
    pub fn addresses(&self, scheme: &Scheme) -> Result<Vec<Address>, PluginError> {
        if self.servers.is_empty() {
            return Err(PluginError::invalid_config("servers", "is empty: name at least one server"));
        }
        let parsed = self.servers.iter().enumerate().map(|(place, text)| {
            Address::parse(text, scheme).map_err(|why| PluginError::invalid_config(&format!("servers[{place}]"), why))
        });
        parsed.collect()
    }
}

impl<K: Keys> Config<K> {
    /// Checks what the types can't say.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn check(&self) -> Result<(), PluginError> {
        self.addresses()?;
        let Common { connections, window, connect_timeout, .. } = self.common;
        positive(&[("connections", connections), ("window", window), ("connect_timeout", connect_timeout)])?;
        self.own.check(&self.common)
    }

    /// Where the servers are.
    ///
    /// # Errors
    /// There is none, or one whose address can't be read.
    pub fn addresses(&self) -> Result<Vec<Address>, PluginError> {
        self.own.addresses(&self.common)
    }
}

/// Refuses the first of these keys whose value is 0.
///
/// # Errors
/// Its place.
pub fn positive(values: &[(&str, u32)]) -> Result<(), PluginError> {
    match values.iter().find(|(_, value)| *value == 0) {
        Some((path, _)) => Err(PluginError::invalid_config(path, "is 0: write more than that")),
        None => Ok(()),
    }
}

impl<'de, K: Keys> Deserialize<'de> for Config<K> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_map(Document(PhantomData))
    }
}

struct Document<K>(PhantomData<K>);

impl<'de, K: Keys> Visitor<'de> for Document<K> {
    type Value = Config<K>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the configuration of a broker")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Config<K>, A::Error> {
        let mut common = Common::new(&K::SCHEME);
        let own = K::deserialize(OwnKeys { map, common: &mut common, names: &[] })?;
        Ok(Config { common, own })
    }
}

/// A document as the own keys see it: those of every broker are read in passing.
struct OwnKeys<'a, A> {
    map: A,
    common: &'a mut Common,
    /// Names of the fields of `K`; every other key is read into `common`.
    names: &'static [&'static str],
}

impl<'de, A: MapAccess<'de>> Deserializer<'de> for OwnKeys<'_, A> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_map(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.names = names;
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OwnKeys<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, mut seed: S) -> Result<Option<S::Value>, A::Error> {
        loop {
            match self.map.next_key_seed(KeySeed { seed, names: self.names })? {
                None => return Ok(None),
                Some(Key::Own(key)) => return Ok(Some(key)),
                Some(Key::Common(key, unused)) => {
                    self.common.read(&key, &mut self.map)?;
                    seed = unused;
                }
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A key, and the seed where it wasn't for it.
enum Key<S, V> {
    Common(String, S),
    Own(V),
}

struct KeySeed<S> {
    seed: S,
    names: &'static [&'static str],
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<S> {
    type Value = Key<S, S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        let key = String::deserialize(input)?;
        if KEYS.contains(&key.as_str()) {
            return Ok(Key::Common(key, self.seed));
        }
        if !self.names.contains(&key.as_str()) {
            let known: Vec<String> = KEYS.iter().chain(self.names).map(|name| format!("`{name}`")).collect();
            return Err(D::Error::custom(format!("unknown field `{key}`, expected one of {}", known.join(", "))));
        }
        let key: StringDeserializer<D::Error> = key.into_deserializer();
        self.seed.deserialize(key).map(Key::Own)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Own {
        topic: String,
        #[serde(deserialize_with = "crate::config::millis")]
        keep_alive: u32,
    }

    impl Keys for Own {
        const SCHEME: Scheme = Scheme { plain: "mqtt", tls: "mqtts", port: 1883, tls_port: 8883 };

        fn check(&self, _: &Common) -> Result<(), PluginError> {
            positive(&[("keep_alive", self.keep_alive)])
        }
    }

    fn parse(json: &str) -> Result<Config<Own>, (String, String)> {
        crate::config::parse(json).map_err(|wrong| (wrong.path, wrong.reason))
    }

    #[test]
    fn every_key_goes_where_it_belongs() {
        let config = parse(
            r#"{"window":7,"topic":"orders","servers":["mqtts://a"],"keep_alive":"1m","connect_timeout":"3s","tls":"required",
                "connections":4,"tls_server_name":"b"}"#,
        )
        .unwrap();
        assert_eq!(config.own, Own { topic: "orders".to_owned(), keep_alive: 60_000 });
        let Common { tls, tls_server_name, connections, window, connect_timeout, .. } = &config.common;
        assert_eq!((*tls, tls_server_name.as_deref()), (Tls::Required, Some("b")));
        assert_eq!((*connections, *window, *connect_timeout), (4, 7, 3_000));
        assert_eq!(config.addresses().unwrap().first().unwrap().uri(), "tcp://a:8883");
    }

    #[test]
    fn an_empty_document_is_the_defaults() {
        let config = parse("{}").unwrap();
        assert_eq!(config.addresses().unwrap().first().unwrap().uri(), "tcp://127.0.0.1:1883");
        assert_eq!((config.common.connections, config.common.window, config.own), (2, 256, Own::default()));
    }

    #[test]
    fn each_key_of_every_broker_can_be_read() {
        for key in KEYS {
            let (path, reason) = parse(&format!(r#"{{"{key}":true}}"#)).unwrap_err();
            assert_eq!(path, key);
            assert!(!reason.contains("is no key"), "{reason}");
        }
    }

    #[test]
    fn a_mismatch_names_its_place() {
        for (json, path, part) in [
            (r#"{"server":"a"}"#, "server", "unknown field `server`, expected one of `servers`, `tls`"),
            (r#"{"window":1,"server":"a"}"#, "server", "`topic`, `keep_alive`"),
            (r#"{"servers":["a",7]}"#, "servers[1]", "expected a string"),
            (r#"{"connect_timeout":"1200h"}"#, "connect_timeout", "`1200h` is no duration"),
            (r#"{"topic":"a","keep_alive":"soon"}"#, "keep_alive", "`soon` is no duration"),
            (r#"{"tls":"maybe"}"#, "tls", "unknown variant `maybe`"),
            ("[]", ".", "expected the configuration of a broker"),
        ] {
            let (at, reason) = parse(json).unwrap_err();
            assert_eq!(at, path, "{json}");
            assert!(reason.contains(part), "{json}: {reason}");
        }
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            (r#"{"keep_alive":1,"servers":[]}"#, "servers"),
            (r#"{"keep_alive":1,"servers":["a","nats://b"]}"#, "servers[1]"),
            (r#"{"keep_alive":1,"connections":0}"#, "connections"),
            (r#"{"keep_alive":1,"connect_timeout":"0s"}"#, "connect_timeout"),
            (r#"{}"#, "keep_alive"),
        ] {
            let error = parse(json).unwrap().check().unwrap_err();
            assert_eq!(error.fault.attributes, [("path".to_owned(), path.to_owned())], "{json}");
        }
    }
}
