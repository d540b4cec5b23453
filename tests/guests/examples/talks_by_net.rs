//! Well-behaved user of `net` that does what it is told: `names` are the steps, one after the other on one connection to `address`; it
//! reports, as attributes of the receipt, what came of each. Options of TLS: `ca=`, `cert=`, `key=` (names of secrets), `name=`, `alpn=a,b`;
//! of all: `timeout=`.
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use guests::{Outcome, Receipt};
use waybill_plugin::host::net::Connection;
use waybill_plugin::host::net_types::{ConnectOptions, NetError, TlsOptions};

/// Bytes of one write: the host takes no more than 4 MiB in one call.
const WRITE_BYTES: usize = 1 << 20;

guests::on_send!(config, _call, batch => {
    let mut script = Script { address: config.address.clone(), connection: None };
    let mut receipt = Receipt::with_reference("talked");
    for step in &config.names {
        let seen = script.run(step).await.unwrap_or_else(|error| format!("{error:?}"));
        receipt.attributes.push((step.clone(), seen));
    }
    Ok(batch.iter().map(|_| Outcome::Ack(receipt.clone())).collect())
});

struct Script {
    address: String,
    connection: Option<Connection>,
}

impl Script {
    async fn run(&mut self, step: &str) -> Result<String, NetError> {
        let words = Words(step.split(' ').collect());
        let timeout = words.option("timeout").map(|ms| words.number(Some(&ms)));
        if words.at(0) == "connect" {
            let tls = (words.at(1) == "tls").then(|| words.tls());
            let keep_alive = None;
            let timeout = timeout.unwrap_or(10_000);
            let options = ConnectOptions { tls, timeout, keep_alive, attributes: Vec::new() };
            self.connection = Some(Connection::connect(format!("tcp://{}", self.address), options).await?);
            return Ok("connected".to_owned());
        }
        if words.at(0) == "drop" {
            self.connection = None;
            return Ok("dropped".to_owned());
        }
        let Some(connection) = &self.connection else { return Ok("no connection".to_owned()) };
        match words.at(0) {
            "write" => connection.write(words.at(1).as_bytes().to_vec(), timeout).await.map(|()| "written".to_owned()),
            "flood" => flood(connection, timeout).await,
            "read" => {
                let (min, max) = (words.number(Some(words.at(1))), words.number(Some(words.at(2))));
                let bytes = connection.read(min, max, timeout).await?;
                Ok(format!("got {:?}", String::from_utf8_lossy(&bytes)))
            }
            "start-tls" => connection.start_tls(words.tls(), timeout).await.map(|()| "started".to_owned()),
            "start-tls-while-reading" => while_reading(connection, words.tls()).await.map(|()| "started".to_owned()),
            "finish" => connection.finish().await.map(|()| "finished".to_owned()),
            "info" => Ok(info(connection)),
            "exchange" => exchange(connection, words.number(Some(words.at(1))) as usize).await,
            other => Ok(format!("no such step: {other}")),
        }
    }
}

struct Words<'a>(Vec<&'a str>);

impl Words<'_> {
    fn at(&self, place: usize) -> &str {
        self.0.get(place).copied().unwrap_or_default()
    }

    fn number(&self, word: Option<&str>) -> u32 {
        word.and_then(|word| word.parse().ok()).unwrap_or_default()
    }

    fn option(&self, name: &str) -> Option<String> {
        self.0.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    }

    fn tls(&self) -> TlsOptions {
        TlsOptions {
            server_name: self.option("name"),
            ca_secret: self.option("ca"),
            client_cert_secret: self.option("cert"),
            client_key_secret: self.option("key"),
            alpn: self.option("alpn").map(|list| list.split(',').map(str::to_owned).collect()).unwrap_or_default(),
        }
    }
}

fn info(connection: &Connection) -> String {
    let info = connection.info();
    let binding = info.channel_binding.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    format!("tls={:?} alpn={:?} binding={binding:?}", info.tls_version, info.alpn)
}

/// Writes more than any buffer takes.
async fn flood(connection: &Connection, timeout: Option<u32>) -> Result<String, NetError> {
    for _ in 0..64 {
        connection.write(vec![7; WRITE_BYTES], timeout).await?;
    }
    Ok("written".to_owned())
}

/// Writes so many bytes of a pattern and reads as many at once; the peer sends the same pattern.
async fn exchange(connection: &Connection, amount: usize) -> Result<String, NetError> {
    let pattern = |place: usize| (place.wrapping_mul(2_654_435_761) >> 7) as u8;
    let sent: Vec<u8> = (0..amount).map(pattern).collect();
    let written = RefCell::new(None);
    let read = async {
        let mut place = 0;
        while place < amount {
            let bytes = connection.read(1, 256 * 1024, None).await?;
            for byte in bytes {
                if byte != pattern(place) {
                    return Ok(format!("wrong at {place}"));
                }
                place += 1;
            }
        }
        Ok(format!("exchanged {place}"))
    };
    let write = async {
        let mut result = Ok(());
        for chunk in sent.chunks(WRITE_BYTES) {
            result = result.and(connection.write(chunk.to_vec(), None).await);
        }
        *written.borrow_mut() = Some(result);
    };
    let (mut read, mut write) = (pin!(read), pin!(write));
    let mut result = None;
    let result = poll_fn(|context| {
        if written.borrow().is_none() {
            let _ = write.as_mut().poll(context);
        }
        if result.is_none()
            && let Poll::Ready(done) = read.as_mut().poll(context)
        {
            result = Some(done);
        }
        if written.borrow().is_some() && result.is_some() { Poll::Ready(result.take()) } else { Poll::Pending }
    })
    .await;
    written.take().unwrap_or(Ok(()))?;
    result.unwrap_or(Ok(String::new()))
}

/// Calls `start-tls` while a read waits.
async fn while_reading(connection: &Connection, tls: TlsOptions) -> Result<(), NetError> {
    let mut read = pin!(connection.read(1, 1, None));
    poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_ready())).await;
    connection.start_tls(tls, None).await
}
