//! A transport over a protocol of its own: connects, says who it is, and keeps a window of entries under way.

pub mod protocol;

use std::cell::Cell;

use serde::Deserialize;
use waybill_plugin::buffered::Buffered;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::{Bounds, Broken};
use waybill_plugin::host::net_types::NetError;
use waybill_plugin::net::{self, Options, Stream};
use waybill_plugin::pipeline::pipeline;
use waybill_plugin::secret;
use waybill_plugin::transport::{
    CallInfo, ErrorKind, Fault, Health, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport,
};

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Ledger);

/// How often the host calls `tick` while nothing is sent, in milliseconds: below the minute after which the ledger hangs up.
const TICK_EVERY: u32 = 20_000;

/// `config` of the transport, as the schema in waybill-plugin.toml describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    address: String,
    #[serde(default = "window")]
    window: usize,
    #[serde(default = "silence", deserialize_with = "waybill_plugin::config::millis")]
    silence: u32,
}

fn window() -> usize {
    64
}

fn silence() -> u32 {
    10_000
}

struct Ledger {
    config: Config,
    /// The connection between calls. A call takes it out and puts it back when it is still good.
    stream: Cell<Option<Stream>>,
}

impl Transport for Ledger {
    type Config = Config;

    async fn open(call: &CallInfo, _: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let ledger = Self { config, stream: Cell::new(None) };
        let stream = ledger.connect(Deadline::of_call(call.timeout)).await?;
        let peer = stream.info().remote;
        ledger.stream.set(Some(stream));
        // One call at a time: there is one connection, and a batch fills it.
        Ok((ledger, Opened { peer: Some(peer), tick_every: Some(TICK_EVERY), ..Opened::new() }))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let stream = self.connection(deadline).await?;
        let requests = batch.iter().map(|message| protocol::put(&message.id, &message.destination, &message.payload));
        let bounds = Bounds { silence: self.config.silence, deadline };
        let mut outcomes = Vec::with_capacity(batch.len());
        let said = pipeline(&stream, requests, self.config.window, bounds, protocol::reply, |index, reply| {
            let outcome = protocol::outcome(reply);
            // Told at once: it stands, whatever becomes of the rest.
            call.settled(index, &outcome);
            outcomes.push(outcome);
        });
        match said.await {
            Ok(()) => {
                self.stream.set(Some(stream));
                Ok(outcomes)
            }
            // Nobody knows what became of the others. They come again with their ids, and the ledger knows those.
            Err(broken) => Err(unknown(broken)),
        }
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        match self.tick(call).await {
            Ok(()) => HealthReport::ready(),
            Err(error) => HealthReport::new(Health::Down, error.fault.reason),
        }
    }

    async fn tick(&self, call: &CallInfo) -> Result<(), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut peer = Buffered::new(self.connection(deadline).await?);
        let answer = ask(&mut peer, b"PING\n", deadline).await.map_err(|error| net::failure("LEDGER.LOST", &error))?;
        if answer != b"PONG" {
            return Err(PluginError::unavailable("LEDGER.PROTOCOL", "the ledger doesn't answer PING with PONG"));
        }
        self.stream.set(Some(peer.into_parts().0));
        Ok(())
    }

    async fn close(&self, _: &CallInfo) {
        if let Some(stream) = self.stream.take() {
            // It is of no interest any more whether the ledger hears it.
            let _ = stream.write(b"BYE\n".to_vec(), 1_000).await;
        }
    }
}

impl Ledger {
    /// The connection that is there, or a new one. One that the ledger has ended meanwhile is found here, before a batch is written into
    /// it and nobody knows what became of it.
    async fn connection(&self, deadline: Deadline) -> Result<Stream, PluginError> {
        if let Some(stream) = self.stream.take()
            && stream.receive_ready().await.is_ok_and(|unasked| unasked.is_empty())
        {
            return Ok(stream);
        }
        self.connect(deadline).await
    }

    async fn connect(&self, deadline: Deadline) -> Result<Stream, PluginError> {
        let failed = |error: NetError| net::connect_failure("LEDGER.CONNECT", &self.config.address, &error);
        let timeout = deadline.at_most(self.config.silence).left().ok_or_else(|| failed(NetError::Timeout))?;
        let address = format!("tcp://{}", self.config.address);
        let stream = Stream::connect(&address, Options { timeout, tls: None }).await.map_err(failed)?;
        let deadline = deadline.at_most(self.config.silence);
        let mut peer = Buffered::new(stream);
        let greeting = peer.read_line(protocol::LINE_BYTES_MAX, deadline).await.map_err(failed)?;
        if greeting != b"LEDGER 1" {
            let why = format!("{} is no ledger that speaks version 1", self.config.address);
            return Err(PluginError::new(ErrorKind::Unsupported, Fault::new("LEDGER.PROTOCOL", why)));
        }
        let token = secret::text("token", "LEDGER.TOKEN")?.unwrap_or_default();
        let hello = format!("HELLO {}\n", protocol::word(&token));
        let answer = ask(&mut peer, hello.as_bytes(), deadline).await.map_err(failed)?;
        match answer.strip_prefix(b"DENIED") {
            None if answer == b"WELCOME" => Ok(peer.into_parts().0),
            None => Err(PluginError::unavailable("LEDGER.PROTOCOL", "the ledger doesn't answer HELLO")),
            Some(why) => {
                let why = format!("the ledger refuses the token:{}", String::from_utf8_lossy(why));
                Err(PluginError::denied("LEDGER.DENIED", why))
            }
        }
    }
}

/// A line, and the line that answers it.
async fn ask(peer: &mut Buffered, line: &[u8], deadline: Deadline) -> Result<Vec<u8>, NetError> {
    peer.put(line)?;
    peer.flush(deadline).await?;
    peer.read_line(protocol::LINE_BYTES_MAX, deadline).await
}

/// The whole call failed while entries were under way.
fn unknown(broken: Broken) -> PluginError {
    let error = match broken {
        Broken::Silent => PluginError::unavailable("LEDGER.SILENT", "the ledger says nothing any more"),
        Broken::Lost(error) => net::failure("LEDGER.LOST", &error),
        Broken::Refused(error) => error,
    };
    PluginError::new(error.kind, error.fault.with_maybe_delivered(true))
}
