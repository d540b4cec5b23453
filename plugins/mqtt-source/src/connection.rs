//! A connection as the pool keeps it: one of them has the server's session.

use std::cell::Cell;
use std::time::{Duration, Instant};

use waybill_mqtt_wire::packet::Packet;
use waybill_mqtt_wire::reason::{self, REFUSED};
use waybill_mqtt_wire::write::{self, acknowledge, subscribe, unsubscribe};
use waybill_mqtt_wire::{self as wire, Credentials, Login, Version, keys, no_mqtt, stale};
use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::transport::{OpenArgs, OpenPurpose, PluginError};

use crate::arrivals::Arrivals;
use crate::config::{Config, Keys, Retained};
use crate::delivery::delivery;

/// Ids of our requests. Those of messages are the server's to choose, and have nothing to do with them.
const SUBSCRIBE: u16 = 1;
const UNSUBSCRIBE: u16 = 2;

/// Bytes that are read although there is no room for more messages: else nobody would see how the connection ends.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// What every connection of an instance has in common.
pub(crate) struct Shared {
    /// Which version the servers were found to speak.
    found: Cell<Option<Version>>,
    credentials: Credentials,
    /// Name of the client, by which the server keeps the session.
    client: String,
    /// Whether the session is to leave nothing behind.
    probes: bool,
    /// How often a server had no session of ours, since somebody asked.
    missing: Cell<u64>,
}

impl Shared {
    /// Name of the client.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// How often a server had no session of ours, since this was asked last. It has one from then on.
    pub(crate) fn take_missing(&self) -> u64 {
        self.missing.take()
    }
}

/// A connection that is logged in.
pub(crate) struct Connection {
    wire: wire::Connection,
    /// The subscriptions are asked for.
    subscribes: bool,
    /// The server has answered.
    is_subscribed: bool,
    since: Instant,
}

impl Session for Connection {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = wire::Connection::CODES;

    fn share(args: &OpenArgs, config: &Config, _: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared {
            found: Cell::default(),
            credentials: Credentials::read()?,
            client: config.own.client(args),
            probes: args.purpose == OpenPurpose::Probe,
            missing: Cell::new(0),
        })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let (shared, config) = (endpoint.shared(), endpoint.config());
        let login = Login {
            credentials: &shared.credentials,
            client_id: &shared.client,
            clean: shared.probes,
            session_expiry: if shared.probes { 0 } else { config.own.session_seconds() },
            receive_maximum: u16::try_from(config.common.window).unwrap_or(u16::MAX),
            keep_alive: keys::keep_alive_seconds(config.own.keep_alive),
        };
        let wire =
            wire::Connection::open(endpoint, address, config.own.version, &shared.found, &login, deadline).await?;
        if !wire.limits().has_session {
            shared.missing.set(shared.missing.get() + 1);
        }
        if config.own.share.is_some() && !wire.limits().shares {
            return Err(reason::of_connection(0x9e, None).error());
        }
        Ok(Self { wire, subscribes: false, is_subscribed: false, since: Instant::now() })
    }

    fn address(&self) -> &Address {
        self.wire.address()
    }

    async fn catch_up(&mut self, _: Deadline) -> Result<(), PluginError> {
        // What the session holds begins to come at once: it stays here until somebody takes it.
        if self.wire.incoming.is_empty() {
            self.wire.listen(0).await?;
        }
        Ok(())
    }

    async fn ping(&mut self, endpoint: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.catch_up(deadline).await?;
        if self.wire.incoming.is_empty() && self.wire.beat.is_dead(endpoint.config().own.ack_timeout) {
            return Err(stale());
        }
        self.wire.ask(deadline).await.map(|()| None)
    }

    fn ping_timeout(config: &Config) -> u32 {
        config.own.ack_timeout
    }

    async fn close(self, deadline: Deadline) {
        self.wire.close(deadline).await;
    }
}

impl Connection {
    pub(crate) fn wire(&self) -> &wire::Connection {
        &self.wire
    }

    /// How long it has lasted.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether more may be read than there is room for.
    pub(crate) fn may_read_ahead(&self) -> bool {
        self.wire.incoming.len() < AHEAD_BYTES_MAX
    }

    /// Whether the server has answered to the subscriptions.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.is_subscribed
    }

    /// Asks for the subscriptions, once. The answer comes among the messages, which may be many. `has_answered` is whether this server
    /// has answered to them before, in the life of this instance.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) async fn subscribe(
        &mut self,
        own: &Keys,
        has_answered: bool,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        if std::mem::replace(&mut self.subscribes, true) {
            return Ok(());
        }
        let (version, mut out) = (self.wire.version(), Vec::new());
        if has_answered && self.wire.limits().has_session && keeps_subscriptions(own.retained, version) {
            self.is_subscribed = true;
            return Ok(());
        }
        if !own.unsubscribe.is_empty() {
            unsubscribe(&mut out, version, UNSUBSCRIBE, own.unsubscribe.iter().map(String::as_str));
        }
        let retained = match own.retained {
            Retained::Skip => write::Retained::Never,
            Retained::New => write::Retained::New,
            Retained::Each => write::Retained::Each,
        };
        subscribe(&mut out, version, SUBSCRIBE, retained, own.filters().iter().map(String::as_str));
        self.wire.write(out, deadline).await
    }

    /// Takes what has come into `arrivals`, messages for as long as there is room, and acknowledges what nobody wants.
    ///
    /// # Errors
    /// The server refused a subscription, or the connection is of no more use.
    pub(crate) async fn take(
        &mut self,
        arrivals: &mut Arrivals,
        own: &Keys,
        group: Option<&str>,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let is_subscribed = &mut self.is_subscribed;
        loop {
            let has_room = arrivals.has_room();
            let is_wanted = |packet: &Packet<'_>| has_room || !matches!(packet, Packet::Message(_));
            let taken = self.wire.incoming.next_if(is_wanted, |packet| match packet {
                Packet::Message(message) => {
                    // In 3.1.1 the server can't be told, and sends all that it retained at each subscription.
                    let is_wanted = !message.is_retained || own.retained != Retained::Skip;
                    let delivery = is_wanted.then(|| delivery(&message, group, own));
                    arrivals.push(message.id, delivery);
                    Ok(())
                }
                Packet::Subscribed { id: SUBSCRIBE, reasons } => {
                    *is_subscribed = true;
                    check_subscribed(reasons, own)
                }
                Packet::Ended { reason, said } => Err(reason::of_connection(reason, said).error()),
                Packet::Unsubscribed { id: UNSUBSCRIBE, reasons } => {
                    warn_of_kept(reasons, own);
                    Ok(())
                }
                Packet::Unsubscribed { .. } | Packet::Alive => Ok(()),
                _ => Err(no_mqtt("an answer that nobody asked for")),
            })?;
            match taken {
                Some(taken) => taken?,
                None => break,
            }
        }
        self.acknowledge(arrivals, deadline).await
    }

    /// Acknowledges what is settled, in the order of arrival.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) async fn acknowledge(&mut self, arrivals: &mut Arrivals, deadline: Deadline) -> Result<(), PluginError> {
        let mut out = Vec::new();
        for id in arrivals.acknowledge() {
            acknowledge(&mut out, id);
        }
        if out.is_empty() { Ok(()) } else { self.wire.write(out, deadline).await }
    }

    /// Waits up to `wait` milliseconds for bytes; 0 = only what is there. Answers whether some came.
    ///
    /// # Errors
    /// The connection is of no more use, or the server is silent for longer than `silence` milliseconds.
    pub(crate) async fn listen(&mut self, wait: u32, silence: u32, deadline: Deadline) -> Result<bool, PluginError> {
        self.wire.ask_if_due(deadline).await?;
        let has_come = self.wire.listen(wait).await?;
        if !has_come && self.wire.beat.is_dead(silence) {
            return Err(stale());
        }
        Ok(has_come)
    }

    /// Asks for a sign of life, without waiting for it.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) async fn ask(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        self.wire.ask(deadline).await
    }
}

/// Whether the subscriptions of the server's session are left as they are. In 3.1.1 each request brings all that the server
/// retained, and nothing tells what came before from what waited unsent: all of it would have to be brought again, or some lost.
fn keeps_subscriptions(retained: Retained, version: Version) -> bool {
    retained == Retained::New && version == Version::V311
}

fn check_subscribed(reasons: &[u8], own: &Keys) -> Result<(), PluginError> {
    let filters = own.filters();
    if reasons.len() != filters.len() {
        return Err(no_mqtt("an answer to another subscription"));
    }
    for (filter, reason) in filters.iter().zip(reasons) {
        if *reason >= REFUSED {
            return Err(reason::of_filter(*reason, filter).error());
        }
        if *reason == 0 {
            waybill_plugin::warn!(
                [("code", "MQTT.QOS")],
                "the server gives `{filter}` quality of service 0 only: what is lost on its way is lost"
            );
        }
    }
    Ok(())
}

/// Tells of filters that the server's session keeps although they were to go.
fn warn_of_kept(reasons: &[u8], own: &Keys) {
    for filter in kept(reasons, own) {
        waybill_plugin::warn!([("code", "MQTT.FILTER")], "the server didn't end the subscription to `{filter}`");
    }
}

fn kept<'a>(reasons: &'a [u8], own: &'a Keys) -> impl Iterator<Item = &'a str> {
    let all = own.unsubscribe.iter().zip(reasons);
    all.filter(|(_, reason)| **reason >= REFUSED).map(|(filter, _)| filter.as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_the_older_version_is_not_asked_again_for_what_is_new() {
        for (retained, version, keeps) in [
            (Retained::New, Version::V311, true),
            (Retained::New, Version::V5, false),
            (Retained::Each, Version::V311, false),
            (Retained::Skip, Version::V311, false),
        ] {
            assert_eq!(keeps_subscriptions(retained, version), keeps, "{retained:?} {version:?}");
        }
    }

    #[test]
    fn a_refused_filter_is_named() {
        let config: Config = waybill_plugin::config::parse(r#"{"topics":["a","b"]}"#).unwrap();
        assert!(check_subscribed(&[1, 1], &config.own).is_ok());
        let error = check_subscribed(&[1, 0x87], &config.own).unwrap_err();
        assert_eq!(error.fault.code, "MQTT.PERMISSIONS");
        assert!(error.fault.reason.starts_with("`b`"));
        assert_eq!(check_subscribed(&[1], &config.own).unwrap_err().fault.code, "MQTT.PROTOCOL");
    }
    #[test]
    fn a_subscription_that_was_to_go_and_stays_is_named() {
        let json = r#"{"topics":["a"],"unsubscribe":["b","$share/billing/c"]}"#;
        let config: Config = waybill_plugin::config::parse(json).unwrap();
        assert_eq!(kept(&[0x11, 0x87], &config.own).collect::<Vec<_>>(), ["$share/billing/c"]);
        assert_eq!(kept(&[], &config.own).count(), 0);
    }
}
