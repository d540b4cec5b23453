//! A connection as the pool keeps it: one of them consumes the queue.

use std::time::{Duration, Instant};

use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::{NetError, TlsOptions};
use waybill_plugin::transport::{ErrorKind, Fault, OpenArgs, PluginError};
use waybill_rabbitmq_wire::codec::Method;
use waybill_rabbitmq_wire::wire::{method, short, table};
use waybill_rabbitmq_wire::{self as wire, Alarms, CHANNEL, Credentials, Delivered, Event, Login, Refusal, shown};

use crate::config::{Config, Keys};

const QOS: (u16, u16) = (60, 10);
const CONSUME: (u16, u16) = (60, 20);
const CANCEL: (u16, u16) = (60, 30);
/// Bit of `basic.consume`: nobody else may consume the queue.
const EXCLUSIVE: u8 = 4;

/// What every connection of an instance has in common.
pub(crate) struct Shared {
    credentials: Credentials,
    /// Name that the server shows for this client.
    name: String,
    alarms: Alarms,
}

pub(crate) struct Connection {
    wire: wire::Connection,
    /// Deliveries come on its channel.
    consumes: bool,
    /// The channel for messages was opened.
    is_open: bool,
    /// The server closed that channel: the queue is at fault, not the server.
    is_refused: bool,
    /// How many messages wait in the queue, as the server answered last; taken by who shows it.
    depth: Option<u32>,
    /// When it was asked for that, if nothing was heard since the time before.
    asked: Option<Instant>,
}

/// How our consumer is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Consumer<'a> {
    pub(crate) queue: &'a str,
    pub(crate) tag: &'a str,
    pub(crate) exclusive: bool,
    /// Deliveries that may be unsettled.
    pub(crate) prefetch: u16,
}

impl Session for Connection {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = wire::Connection::CODES;

    fn share(args: &OpenArgs, config: &Config, tls: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared {
            credentials: Credentials::read(config.own.auth, tls.client_cert_secret.is_some())?,
            name: format!("waybill {}", args.name),
            alarms: Alarms::default(),
        })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let (shared, own) = (endpoint.shared(), &endpoint.config().own);
        let link = endpoint.connect(address, endpoint.wants_tls(address), deadline).await?;
        let login = Login {
            credentials: &shared.credentials,
            name: &shared.name,
            vhost: &own.vhost,
            heartbeat: own.heartbeat_seconds(),
            needs_confirms: false,
        };
        let wire = wire::Connection::open(link, &login, shared.alarms.clone(), deadline).await?;
        Ok(Self { wire, consumes: false, is_open: false, is_refused: false, depth: None, asked: None })
    }

    fn address(&self) -> &Address {
        self.wire.address()
    }

    async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        self.wire.catch_up(deadline).await
    }

    async fn ping(&mut self, _: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.catch_up(deadline).await?;
        let answer = self.wire.has_exchange("", deadline).await?;
        Ok(answer.err().map(|refusal| refusal.error().fault.reason))
    }

    fn ping_timeout(config: &Config) -> u32 {
        config.own.ack_timeout
    }

    async fn close(self, deadline: Deadline) {
        self.wire.close(deadline).await;
    }

    fn is_server_well(&self) -> bool {
        self.is_refused
    }
}

impl Connection {
    pub(crate) fn wire(&mut self) -> &mut wire::Connection {
        &mut self.wire
    }

    pub(crate) fn consumes(&self) -> bool {
        self.consumes
    }

    /// How many messages wait in the queue.
    ///
    /// # Errors
    /// It isn't there, or the connection is of no more use.
    pub(crate) async fn depth(&mut self, queue: &str, deadline: Deadline) -> Result<u32, PluginError> {
        self.wire.queue_depth(queue, deadline).await?.map_err(|refusal| refused(&refusal, queue))
    }

    /// Asks the same without waiting for the answer, which comes behind all that is on its way: more than this instance may have
    /// the memory for.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) async fn ask_depth(&mut self, queue: &str, deadline: Deadline) -> Result<(), PluginError> {
        if !self.is_unanswered() {
            self.asked = Some(Instant::now());
        }
        self.wire.ask_queue_depth(queue, deadline).await
    }

    fn is_unanswered(&self) -> bool {
        self.asked.is_some_and(|asked| self.wire.incoming.beat.is_silent_since(asked))
    }

    /// Fails if the server has answered nothing for so many milliseconds since it was asked, or misses its heartbeats.
    ///
    /// # Errors
    /// It does: the connection is of no more use.
    pub(crate) fn check_alive(&self, silence: u32) -> Result<(), PluginError> {
        let is_over = |asked: Instant| asked.elapsed() >= Duration::from_millis(u64::from(silence));
        if self.wire.incoming.beat.is_dead() {
            return Err(stale());
        }
        if self.is_unanswered() && self.asked.is_some_and(is_over) {
            return Err(PluginError::unavailable(Self::CODES.timeout, "the server doesn't answer any more"));
        }
        Ok(())
    }

    /// The answer, if one came since this was asked last.
    pub(crate) fn take_depth(&mut self) -> Option<u32> {
        self.depth.take()
    }

    /// Begins to consume.
    ///
    /// # Errors
    /// The server refuses, after which the connection is of no more use, or it is gone.
    pub(crate) async fn consume(&mut self, consumer: Consumer<'_>, deadline: Deadline) -> Result<(), PluginError> {
        let write = |out: &mut Vec<u8>| consumer.write(out);
        let is_consuming = |method: &Method<'_>| matches!(method, Method::Consuming);
        let begun = match self.is_open {
            false => self.wire.begin(write, is_consuming, deadline).await,
            true => self.wire.on_channel(write, is_consuming, deadline).await,
        };
        if let Err(error) = begun {
            let refusal = self.wire.incoming.refusal.take();
            self.is_refused = refusal.as_ref().is_some_and(Refusal::is_of_the_channel);
            return Err(refusal.map_or(error, |refusal| refused(&refusal, consumer.queue)));
        }
        (self.is_open, self.consumes) = (true, true);
        Ok(())
    }

    /// Stops consuming. What came until then is there to be given back: bodies stay out.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) async fn cancel(&mut self, tag: &str, deadline: Deadline) -> Result<(), PluginError> {
        if !std::mem::take(&mut self.consumes) {
            return Ok(());
        }
        let write = |out: &mut Vec<u8>| {
            method(out, CHANNEL, CANCEL, |out| {
                short(out, tag);
                out.push(0);
            });
        };
        self.wire.incoming.skips_bodies = true;
        let ended = self.wire.on_channel(write, |method| matches!(method, Method::CancelOk), deadline).await;
        self.wire.incoming.skips_bodies = false;
        ended
    }

    /// Waits up to `wait` milliseconds for bytes and takes what they say; 0 = only what is there. Answers whether some came.
    ///
    /// # Errors
    /// The connection, the channel or the consumer ended.
    pub(crate) async fn listen(&mut self, wait: u32, deadline: Deadline) -> Result<bool, PluginError> {
        let began = Instant::now();
        loop {
            let due = self.wire.incoming.due();
            if !due.is_empty() {
                self.wire.link().write(due, deadline).await?;
            }
            let gone = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
            let left = wait.saturating_sub(gone);
            let stream = self.wire.link().stream();
            let read = match left {
                0 => stream.receive_ready().await,
                left => {
                    let pulse = self.wire.incoming.beat.next().unwrap_or(u32::MAX);
                    stream.receive(left.min(pulse)).await
                }
            };
            match read {
                Ok(bytes) if bytes.is_empty() => return Ok(false),
                Ok(bytes) => {
                    self.take(bytes)?;
                    return Ok(true);
                }
                Err(NetError::Timeout) if left > 0 && !self.wire.incoming.beat.is_dead() => {}
                Err(NetError::Timeout) => return Err(stale()),
                Err(error) => return Err(Self::CODES.lost(&error)),
            }
        }
    }

    fn take(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        let (mut is_cancelled, mut depth) = (false, None);
        self.wire.incoming.push(bytes);
        self.wire.incoming.drain(|event| match event {
            Event::Reply(CHANNEL, Method::Cancel) => is_cancelled = true,
            Event::Reply(wire::Connection::ASIDE, Method::Queue { messages, .. }) => depth = Some(messages),
            _ => {}
        })?;
        self.depth = depth.or(self.depth);
        if is_cancelled {
            self.consumes = false;
            let why = "the server ended our consumer: the queue was deleted, or moved to another node";
            return Err(PluginError::unavailable("RABBITMQ.CANCELLED_CONSUMER", why));
        }
        Ok(())
    }

    /// What came and nobody has taken.
    pub(crate) fn delivered(&mut self) -> impl Iterator<Item = Delivered> + '_ {
        self.wire.incoming.delivered.drain(..)
    }
}

impl Consumer<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        method(out, CHANNEL, QOS, |out| {
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&self.prefetch.to_be_bytes());
            out.push(0);
        });
        method(out, CHANNEL, CONSUME, |out| {
            out.extend_from_slice(&[0, 0]);
            short(out, self.queue);
            short(out, self.tag);
            out.push(if self.exclusive { EXCLUSIVE } else { 0 });
            table(out, |_| {});
        });
    }
}

fn stale() -> PluginError {
    PluginError::unavailable("RABBITMQ.STALE", "the server sends no heartbeats any more")
}

/// A refusal about the queue as the failure of a call. A queue that is missing comes again without anybody's help.
fn refused(refusal: &Refusal, queue: &str) -> PluginError {
    if refusal.says_not_found() {
        let why = format!("there is no queue `{}`: create it, e.g. by `waybill source provision`", shown(queue));
        return PluginError::unavailable("RABBITMQ.NO_QUEUE", why);
    }
    // Somebody else has it to himself for now.
    if refusal.says_conflict() || refusal.text().contains("exclusive") {
        let why = format!("the queue can't be consumed: {}", refusal.text());
        return PluginError::new(ErrorKind::Unavailable, Fault::new("RABBITMQ.QUEUE", why));
    }
    refusal.error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_is_written_as_the_server_reads_it() {
        let consumer = Consumer { queue: "orders", tag: "waybill shop", exclusive: true, prefetch: 50 };
        let mut out = Vec::new();
        consumer.write(&mut out);
        let expected = [
            &b"\x01\0\x01\0\0\0\x0b\0\x3c\0\x0a\0\0\0\0\0\x32\0\xce"[..],
            b"\x01\0\x01\0\0\0\x1f\0\x3c\0\x14\0\0\x06orders\x0cwaybill shop\x04\0\0\0\0\xce",
        ];
        assert_eq!(out, expected.concat());
    }
}
