//! Well-behaved user of `net`: connects to `address` in `open`, writes one line per message in a single write, and takes the server's
//! line per message as its word: `ok` is delivered, anything else a retry.
use guests::{
    CallInfo, Config, ErrorKind, Fault, Health, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError,
    Transport,
};
use waybill_plugin::host::net::Connection;
use waybill_plugin::host::net_types::{ConnectOptions, NetError};

waybill_plugin::manifest!("manifests/transport.toml");
waybill_plugin::export_transport!(Lines);

struct Lines {
    connection: Connection,
}

fn lost(error: NetError) -> PluginError {
    let kind = if matches!(error, NetError::Denied(_)) { ErrorKind::Denied } else { ErrorKind::Unavailable };
    PluginError::new(kind, Fault::new("LINES.LOST", format!("{error:?}")))
}

impl Transport for Lines {
    type Config = Config;

    async fn open(call: &CallInfo, _: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let options = ConnectOptions { tls: None, timeout: call.timeout, keep_alive: None, attributes: Vec::new() };
        let connection = Connection::connect(format!("tcp://{}", config.address), options).await.map_err(lost)?;
        let peer = Some(connection.info().remote);
        Ok((Self { connection }, Opened { peer, ..Opened::new() }))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let mut lines = Vec::new();
        for message in &batch {
            lines.extend_from_slice(&message.payload);
            lines.push(b'\n');
        }
        self.connection.write(lines, Some(call.timeout)).await.map_err(lost)?;
        let mut outcomes = Vec::new();
        let mut rest = Vec::new();
        while outcomes.len() < batch.len() {
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                rest.extend(self.connection.read(1, 65_536, Some(call.remaining())).await.map_err(lost)?);
                continue;
            };
            let line: Vec<u8> = rest.drain(..=end).collect();
            let outcome = match line.trim_ascii() {
                b"ok" => guests::report("ok"),
                other => Outcome::Retryable(Fault::new("LINES.REFUSED", String::from_utf8_lossy(other))),
            };
            call.settled(outcomes.len(), &outcome);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    async fn health(&self, _: &CallInfo) -> HealthReport {
        HealthReport::new(Health::Ready, self.connection.info().remote)
    }

    async fn close(&self, _: &CallInfo) {
        // The peer may be gone already; there is nothing to do about it here.
        let _ = self.connection.finish().await;
    }
}
