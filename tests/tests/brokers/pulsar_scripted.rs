//! The bundled `pulsar` transport and brokers that are made up: what a single real one never says. Their frames are written by hand.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use waybill_core::port::transport::Outcome;
use waybill_tests::transport::{self, acknowledged, batch, delivery, send};

// Kinds of commands, by the protocol.
const CONNECT: u64 = 2;
const CONNECTED: u64 = 3;
const PRODUCER: u64 = 5;
const SEND: u64 = 6;
const SEND_RECEIPT: u64 = 7;
const SEND_ERROR: u64 = 8;
const PRODUCER_SUCCESS: u64 = 17;
const PARTITION_METADATA: u64 = 21;
const PARTITION_METADATA_RESPONSE: u64 = 22;
const LOOKUP: u64 = 23;
const LOOKUP_RESPONSE: u64 = 24;
const TERMINATED: u64 = 15;

/// What a broker does with whoever asks for a topic.
#[derive(Clone, Debug)]
enum Script {
    /// Sends on to this address.
    Redirect(String),
    /// Sends on to its own address, for ever.
    RedirectToItself,
    /// Has it, and takes all messages.
    Have,
    /// Has it, and refuses each entry by the number of its last message.
    Refuse,
}

/// A broker.
struct Peer {
    url: String,
    /// What lookups said of `authoritative`.
    lookups: Arc<Mutex<Vec<u64>>>,
}

impl Peer {
    async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("pulsar://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let lookups = Arc::new(Mutex::new(Vec::new()));
        let (heard, ours) = (Arc::clone(&lookups), url.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, script.clone(), ours.clone(), Arc::clone(&heard)));
            }
        });
        Self { url, lookups }
    }

    fn lookups(&self) -> Vec<u64> {
        self.lookups.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, script: Script, ours: String, lookups: Arc<Mutex<Vec<u64>>>) {
    while let Ok(length) = stream.read_u32().await {
        let mut frame = vec![0; length as usize];
        if stream.read_exact(&mut frame).await.is_err() {
            return;
        }
        let size = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
        let base = fields(&frame[4..4 + size]);
        let kind = number(&base, 1);
        let asked = base.iter().find(|(field, ..)| *field == kind).map(|(.., bytes)| fields(bytes)).unwrap_or_default();
        let answer = match kind {
            CONNECT => command(CONNECTED, &[text(1, "made up"), varint(2, 17)].concat()),
            PARTITION_METADATA => {
                let said = [varint(1, 0), varint(2, number(&asked, 2)), varint(3, 0)].concat();
                command(PARTITION_METADATA_RESPONSE, &said)
            }
            LOOKUP => {
                lookups.lock().unwrap().push(number(&asked, 3));
                let (url, response) = match &script {
                    Script::Redirect(to) => (to, 0),
                    Script::RedirectToItself => (&ours, 0),
                    Script::Have | Script::Refuse => (&ours, 1),
                };
                let said = [text(1, url), varint(3, response), varint(4, number(&asked, 2)), varint(5, 1)].concat();
                command(LOOKUP_RESPONSE, &said)
            }
            PRODUCER => command(PRODUCER_SUCCESS, &[varint(1, number(&asked, 3)), text(2, "p")].concat()),
            SEND => {
                let (producer, first) = (number(&asked, 1), number(&asked, 2));
                match script {
                    Script::Refuse => {
                        let last = first + number(&asked, 3).max(1) - 1;
                        let said = [varint(1, producer), varint(2, last), varint(3, TERMINATED), text(4, "terminated")];
                        command(SEND_ERROR, &said.concat())
                    }
                    Script::Have | Script::Redirect(_) | Script::RedirectToItself => {
                        let place = [varint(1, 7), varint(2, first)].concat();
                        command(SEND_RECEIPT, &[varint(1, producer), varint(2, first), bytes(3, &place)].concat())
                    }
                }
            }
            _ => continue,
        };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A frame with one command.
fn command(kind: u64, said: &[u8]) -> Vec<u8> {
    let base = [varint(1, kind), bytes(kind, said)].concat();
    let size = u32::try_from(base.len()).unwrap();
    [&(size + 4).to_be_bytes()[..], &size.to_be_bytes(), &base].concat()
}

/// A number as protocol buffers have it, seven bits a byte.
fn plain(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap());
    out
}

fn varint(field: u64, number: u64) -> Vec<u8> {
    [plain(field << 3), plain(number)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [plain(field << 3 | 2), plain(value.len() as u64), value.to_vec()].concat()
}

fn text(field: u64, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

/// Fields of a message: each with its number, and its value as a number or as bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = take(&mut message);
        let number = take(&mut message);
        let mut value = Vec::new();
        if tag & 7 == 2 {
            let (head, behind) = message.split_at(number as usize);
            (value, message) = (head.to_vec(), behind);
        }
        found.push((tag >> 3, number, value));
    }
    found
}

fn take(message: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = message[0];
        *message = &message[1..];
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return number;
        }
    }
}

fn number(fields: &[(u64, u64, Vec<u8>)], field: u64) -> u64 {
    fields.iter().find(|(known, ..)| *known == field).map(|(_, number, _)| *number).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_sends_on_is_followed_with_its_authority() {
    let last = Peer::start(Script::Have).await;
    let middle = Peer::start(Script::Redirect(last.url.clone())).await;
    let first = Peer::start(Script::Redirect(middle.url.clone())).await;
    let settings = transport::settings("orders-pulsar", json!({ "servers": [first.url] }));
    let transport = transport::open("pulsar", settings).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, "orders")).await), 3);
    assert_eq!((first.lookups(), middle.lookups(), last.lookups()), (vec![0], vec![1], vec![1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_send_on_in_a_circle_hold_the_destination() {
    let peer = Peer::start(Script::RedirectToItself).await;
    let transport =
        transport::open("pulsar", transport::settings("orders-pulsar", json!({ "servers": [peer.url] }))).await;
    let outcomes = send(&transport.unwrap(), batch(0, 1, "orders")).await;
    let [Outcome::Blocked { fault, .. }] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!((fault.code.to_string().as_str(), fault.maybe_delivered), ("PULSAR.LOOKUP", false));
    assert_eq!(peer.lookups().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_refused_by_its_last_number_is_told_at_once() {
    let peer = Peer::start(Script::Refuse).await;
    // All of a partition share an entry.
    let config = json!({ "servers": [peer.url], "batching": "partition" });
    let transport = transport::open("pulsar", transport::settings("orders-pulsar", config)).await.unwrap();
    let began = Instant::now();
    let outcomes = send(&transport, (0..3).map(|number| delivery(number, "orders")).collect()).await;
    for outcome in &outcomes {
        let Outcome::Blocked { fault, .. } = outcome else { panic!("{outcomes:#?}") };
        assert_eq!(fault.code.to_string(), "PULSAR.TERMINATED");
    }
    assert!(began.elapsed() < Duration::from_secs(15), "it waited for a receipt: {:?}", began.elapsed());
}
