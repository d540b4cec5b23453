//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use serde::Deserialize;
use waybill_mqtt_wire::keys::{self, Body, Protocol};
use waybill_mqtt_wire::topic::{SHARED, check_filter, check_group, is_text};
use waybill_plugin::broker::{self, Common, Scheme, positive};
use waybill_plugin::transport::{OpenArgs, OpenPurpose, PluginError};

pub(crate) type Config = broker::Config<Keys>;

/// The keys beside those of every broker. Servers are tried in the order in which they are listed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// Filters that are subscribed to.
    pub(crate) topics: Vec<String>,
    /// Filters of an earlier configuration, which the server's session would keep; with `$share/GROUP/` where they were of a group.
    pub(crate) unsubscribe: Vec<String>,
    /// The group that shares the messages; none = this source has all of them.
    pub(crate) share: Option<String>,
    /// Name of the client, by which the server keeps its session; none = made of the source's name.
    pub(crate) client_id: Option<String>,
    /// Milliseconds for which the server keeps the session without a connection.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) session_expiry: u32,
    /// Which retained messages are brought.
    pub(crate) retained: Retained,
    /// Which version is spoken.
    pub(crate) version: Protocol,
    /// Where the envelope is.
    pub(crate) body: Body,
    /// Whether the levels of a topic's name are told as parts between dots, as subjects have them here.
    pub(crate) dots: bool,
    /// Milliseconds of silence that the server is asked to bear.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) keep_alive: u32,
    /// Milliseconds of silence after which what isn't answered is given up for this time.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ack_timeout: u32,
}

/// Which retained messages are brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Retained {
    /// None.
    Skip,
    /// Those that are there when the server's session is new.
    New,
    /// Those that are there at each connection.
    Each,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            unsubscribe: Vec::new(),
            share: None,
            client_id: None,
            session_expiry: 7 * 24 * 3_600 * 1_000,
            retained: Retained::New,
            version: Protocol::Auto,
            body: Body::Auto,
            dots: false,
            keep_alive: keys::KEEP_ALIVE_MS,
            ack_timeout: 5_000,
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = keys::SCHEME;

    fn check(&self, common: &Common) -> Result<(), PluginError> {
        if self.topics.is_empty() {
            return Err(PluginError::invalid_config("topics", "is empty: name at least one filter"));
        }
        for (place, filter) in self.topics.iter().enumerate() {
            check_filter(filter).map_err(|why| PluginError::invalid_config(&format!("topics[{place}]"), why))?;
        }
        for (place, filter) in self.unsubscribe.iter().enumerate() {
            let wrong = |why| PluginError::invalid_config(&format!("unsubscribe[{place}]"), why);
            check_unwanted(filter).map_err(wrong)?;
        }
        if let Some(group) = &self.share {
            check_group(group).map_err(|why| PluginError::invalid_config("share", why))?;
        }
        if self.client_id.as_deref().is_some_and(|id| id.is_empty() || !is_text(id)) {
            return Err(PluginError::invalid_config("client_id", "is empty, too long, or holds a control character"));
        }
        positive(&[
            ("session_expiry", self.session_expiry),
            ("keep_alive", self.keep_alive),
            ("ack_timeout", self.ack_timeout),
        ])?;
        keys::check(common, self.keep_alive)
    }
}

/// A filter to be rid of is one as the server has it: of whatever group it was.
fn check_unwanted(filter: &str) -> Result<(), &'static str> {
    match filter.strip_prefix(SHARED).and_then(|shared| shared.split_once('/')) {
        Some((group, filter)) => check_group(group).and_then(|()| check_filter(filter)),
        None => check_filter(filter),
    }
}

impl Keys {
    /// Filters to subscribe to, as the server takes them.
    pub(crate) fn filters(&self) -> Vec<String> {
        self.topics.iter().map(|filter| self.as_shared(filter)).collect()
    }

    fn as_shared(&self, filter: &str) -> String {
        self.share.as_ref().map_or_else(|| filter.to_owned(), |group| format!("{SHARED}{group}/{filter}"))
    }

    /// Name of the client: the same after a restart, another for each instance, and for one who only asks whether it would work.
    pub(crate) fn client(&self, args: &OpenArgs) -> String {
        let mut name = self.client_id.clone().unwrap_or_else(|| format!("waybill-{}", args.name));
        if args.instance > 0 {
            name.push_str(&format!("-{}", args.instance));
        }
        if args.purpose == OpenPurpose::Probe {
            name.push_str("-probe");
        }
        name
    }

    /// Seconds for which the server keeps the session without a connection.
    pub(crate) fn session_seconds(&self) -> u32 {
        keys::seconds(self.session_expiry)
    }

    /// Checks what goes together with the number of instances: each has a session of its own, and without a group each
    /// would bring every message.
    ///
    /// # Errors
    /// There are several, and no group.
    pub(crate) fn check_instances(&self, instances: u32) -> Result<(), PluginError> {
        if instances > 1 && self.share.is_none() {
            let why = "is missing: with more than one of `instances` each message would come once an instance";
            return Err(PluginError::invalid_config("share", why));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn checked(json: &str) -> Result<Config, String> {
        let config: Config = waybill_plugin::config::parse(json).map_err(|error| error.path)?;
        config.check().map_err(|error| error.fault.attributes.into_iter().map(|(_, path)| path).collect::<String>())?;
        Ok(config)
    }

    pub(crate) fn args(instance: u32, purpose: OpenPurpose) -> OpenArgs {
        OpenArgs {
            name: "shop".to_owned(),
            config: String::new(),
            purpose,
            instance,
            instances: 2,
            host_id: String::new(),
            generation: String::new(),
            max_batch: 1,
            max_batch_bytes: 1,
            attributes: Vec::new(),
        }
    }

    #[test]
    fn a_filter_is_enough() {
        let own = checked(r#"{"topics":["orders/#"]}"#).unwrap().own;
        assert_eq!((own.filters(), own.unsubscribe.len()), (vec!["orders/#".to_owned()], 0));
        assert_eq!((own.session_seconds(), own.retained), (604_800, Retained::New));
        let names = [(0, OpenPurpose::Serve), (1, OpenPurpose::Serve), (0, OpenPurpose::Probe)];
        let names = names.map(|(instance, purpose)| own.client(&args(instance, purpose)));
        assert_eq!(names, ["waybill-shop", "waybill-shop-1", "waybill-shop-probe"]);
    }

    #[test]
    fn a_group_shares_and_lets_several_instances_be() {
        let own = checked(
            r#"{"topics":["orders/#"],"unsubscribe":["a","$share/old/+/b"],"share":"billing","client_id":"b"}"#,
        )
        .unwrap()
        .own;
        assert_eq!(own.filters(), ["$share/billing/orders/#"]);
        assert_eq!(own.unsubscribe, ["a", "$share/old/+/b"], "taken literally");
        assert!(own.check_instances(2).is_ok() && own.client(&args(0, OpenPurpose::Serve)) == "b");
        let alone = checked(r#"{"topics":["orders/#"]}"#).unwrap().own;
        assert!(alone.check_instances(1).is_ok() && alone.check_instances(2).is_err());
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, path) in [
            ("{}", "topics"),
            (r#"{"topics":["a","b/#/c"]}"#, "topics[1]"),
            (r#"{"topics":["$share/g/a"]}"#, "topics[0]"),
            (r#"{"topics":["a"],"unsubscribe":["a+"]}"#, "unsubscribe[0]"),
            (r#"{"topics":["a"],"unsubscribe":["$share/g/b/#/c"]}"#, "unsubscribe[0]"),
            (r#"{"topics":["a"],"unsubscribe":["a","$share//b"]}"#, "unsubscribe[1]"),
            (r#"{"topics":["a"],"unsubscribe":["$share/g"]}"#, "unsubscribe[0]"),
            (r#"{"topics":["a"],"share":"a/b"}"#, "share"),
            (r#"{"topics":["a"],"client_id":""}"#, "client_id"),
            (r#"{"topics":["a"],"session_expiry":"0s"}"#, "session_expiry"),
            (r#"{"topics":["a"],"retained":"all"}"#, "retained"),
            (r#"{"topics":["a"],"servers":["mqtts://a"],"tls":"off"}"#, "servers[0]"),
            (r#"{"topics":["a"],"queue":"b"}"#, "queue"),
        ] {
            assert_eq!(checked(json).unwrap_err(), path, "{json}");
        }
    }
}
