//! The bundled `kafka` transport and a server that is made up: one that loses answers and refuses batches just when it is told to, and
//! otherwise keeps a partition as a real one does, by producers' numbers and sequence numbers. Its frames are written by hand.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use waybill_core::port::transport::Outcome;
use waybill_sandbox::WasmTransport;
use waybill_tests::transport::{self, acknowledged, batch, send};

const TOPIC: &str = "orders";

// Numbers of requests, each in the one version that it has here.
const PRODUCE: i16 = 0;
const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;
const INIT_PRODUCER_ID: i16 = 22;
/// Request and version.
const SPOKEN: [(i16, i16); 4] = [(PRODUCE, 3), (METADATA, 4), (API_VERSIONS, 0), (INIT_PRODUCER_ID, 0)];

// Errors of the protocol.
const UNKNOWN: i16 = -1;
const OUT_OF_ORDER: i16 = 45;
const DUPLICATE: i16 = 46;
const STORAGE: i16 = 56;

/// What is done about a batch instead of what a real server does.
#[derive(Clone, Copy, Debug)]
enum Script {
    /// It is stored, and the connection ends without an answer.
    StoreAndCut,
    /// It is stored, and the answer says otherwise.
    StoreAndRefuse(i16),
    /// It isn't stored.
    Refuse(i16),
}

/// A batch as it came: who sent it, its first sequence number, and how many records it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    producer: i64,
    sequence: i32,
    count: i32,
}

#[derive(Default)]
struct Partition {
    script: VecDeque<Script>,
    came: Vec<Batch>,
    stored: Vec<Batch>,
    /// By producer: its last batch, and what it answered.
    last: HashMap<i64, Batch>,
    producers: i64,
}

impl Partition {
    /// As a server does: a producer's last batch is known again, and any other has to follow it.
    fn append(&mut self, batch: Batch) -> i16 {
        let expected = match self.last.get(&batch.producer) {
            Some(last) if *last == batch => return DUPLICATE,
            Some(last) => last.sequence + last.count,
            None => 0,
        };
        if batch.sequence != expected {
            return OUT_OF_ORDER;
        }
        self.last.insert(batch.producer, batch);
        self.stored.push(batch);
        0
    }

    /// The error that is answered, 0 being none; nothing: the connection ends.
    fn take(&mut self, batch: Batch) -> Option<i16> {
        self.came.push(batch);
        match self.script.pop_front() {
            None => Some(self.append(batch)),
            Some(Script::Refuse(number)) => Some(number),
            Some(Script::StoreAndRefuse(number)) => {
                assert_eq!(self.append(batch), 0, "{batch:?} was to be stored");
                Some(number)
            }
            Some(Script::StoreAndCut) => {
                assert_eq!(self.append(batch), 0, "{batch:?} was to be stored");
                None
            }
        }
    }
}

/// A server with one topic of one partition.
struct Peer {
    port: u16,
    partition: Arc<Mutex<Partition>>,
}

impl Peer {
    async fn start(script: &[Script]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let partition = Partition { script: script.iter().copied().collect(), ..Partition::default() };
        let partition = Arc::new(Mutex::new(partition));
        let shared = Arc::clone(&partition);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, port, Arc::clone(&shared)));
            }
        });
        Self { port, partition }
    }

    async fn transport(&self) -> Arc<WasmTransport> {
        let config = json!({ "servers": [format!("127.0.0.1:{}", self.port)] });
        transport::open("kafka", transport::settings("orders-kafka", config)).await.expect("opens")
    }

    fn came(&self) -> Vec<Batch> {
        self.partition.lock().unwrap().came.clone()
    }

    fn stored(&self) -> Vec<Batch> {
        self.partition.lock().unwrap().stored.clone()
    }
}

async fn serve(mut stream: TcpStream, port: u16, partition: Arc<Mutex<Partition>>) {
    while let Ok(length) = stream.read_u32().await {
        let mut frame = vec![0; length as usize];
        if stream.read_exact(&mut frame).await.is_err() {
            return;
        }
        let mut asked = Reader(&frame);
        let (request, version) = (asked.i16(), asked.i16());
        assert!(SPOKEN.contains(&(request, version)), "request {request} in version {version}");
        let number = asked.i32();
        let _client = asked.text();
        let answer = match request {
            API_VERSIONS => versions(),
            METADATA => metadata(port),
            INIT_PRODUCER_ID => {
                let mut partition = partition.lock().unwrap();
                partition.producers += 1;
                [&0_i32.to_be_bytes()[..], &[0; 2], &partition.producers.to_be_bytes(), &[0; 2]].concat()
            }
            _ => {
                let batch = produced(asked);
                match partition.lock().unwrap().take(batch) {
                    Some(error) => word(error),
                    None => return,
                }
            }
        };
        let answer = [&number.to_be_bytes()[..], &answer].concat();
        let size = u32::try_from(answer.len()).unwrap();
        if stream.write_all(&[&size.to_be_bytes()[..], &answer].concat()).await.is_err() {
            return;
        }
    }
}

fn versions() -> Vec<u8> {
    let mut out = vec![0; 2];
    out.extend(4_i32.to_be_bytes());
    for (request, version) in SPOKEN {
        out.extend([request, version, version].into_iter().flat_map(i16::to_be_bytes));
    }
    out
}

fn text(text: &str) -> Vec<u8> {
    [&i16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

/// Server 1 leads partition 0 of the topic, whatever was asked for.
fn metadata(port: u16) -> Vec<u8> {
    let (one, none) = (1_i32.to_be_bytes(), 0_i32.to_be_bytes());
    let no_text = (-1_i16).to_be_bytes();
    let servers = [&one[..], &one, &text("127.0.0.1"), &i32::from(port).to_be_bytes(), &no_text].concat();
    let partition = [&[0; 2][..], &none, &one, &one, &one, &one, &one].concat();
    let topics = [&one[..], &[0; 2], &text(TOPIC), &[0], &one, &partition].concat();
    [&none[..], &servers, &no_text, &one, &topics].concat()
}

/// The one batch of a request.
fn produced(mut asked: Reader<'_>) -> Batch {
    let _transaction = asked.text();
    assert_eq!(asked.i16(), -1, "all replicas have to have it");
    let _timeout = asked.i32();
    assert_eq!((asked.i32(), asked.text(), asked.i32(), asked.i32()), (1, TOPIC, 1, 0));
    let size = usize::try_from(asked.i32()).unwrap();
    let records = asked.bytes(size);
    let mut stamp = Reader(&records[43..61]);
    let (producer, _epoch) = (stamp.i64(), stamp.i16());
    Batch { producer, sequence: stamp.i32(), count: stamp.i32() }
}

/// What is answered to a batch.
fn word(error: i16) -> Vec<u8> {
    let (one, none) = (1_i32.to_be_bytes(), 0_i32.to_be_bytes());
    let offset = if error == 0 { 0_i64 } else { -1 }.to_be_bytes();
    [&one[..], &text(TOPIC), &one, &none, &error.to_be_bytes(), &offset, &(-1_i64).to_be_bytes(), &none].concat()
}

/// What is left of a request.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.bytes(2).try_into().unwrap())
    }

    fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }

    fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.bytes(8).try_into().unwrap())
    }

    /// Empty without one.
    fn text(&mut self) -> &'a str {
        let length = usize::try_from(self.i16()).unwrap_or(0);
        std::str::from_utf8(self.bytes(length)).unwrap()
    }
}

fn of(producer: i64, sequence: i32, count: i32) -> Batch {
    Batch { producer, sequence, count }
}

/// The code of what may have been delivered, and has no acknowledgement.
fn unknown(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Retryable(fault) if fault.maybe_delivered => Some(fault.code.as_str()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_answer_is_lost_goes_again_by_its_number_and_is_stored_once() {
    let peer = Peer::start(&[Script::StoreAndCut]).await;
    let transport = peer.transport().await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, TOPIC)).await), 3);
    assert_eq!(peer.came(), [of(1, 0, 3); 2]);
    // What follows is numbered behind it.
    assert_eq!(acknowledged(&send(&transport, batch(3, 5, TOPIC)).await), 2);
    assert_eq!(peer.stored(), [of(1, 0, 3), of(1, 3, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_number_is_not_taken_goes_again_by_another_producers() {
    let peer = Peer::start(&[Script::Refuse(OUT_OF_ORDER)]).await;
    let transport = peer.transport().await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, TOPIC)).await), 3);
    assert_eq!(peer.came(), [of(1, 0, 3), of(2, 0, 3)]);
    assert_eq!(acknowledged(&send(&transport, batch(3, 5, TOPIC)).await), 2);
    assert_eq!(peer.stored(), [of(2, 0, 3), of(2, 3, 2)]);
}

/// The server has it and knows nothing of it any more, as one that lost what it remembers of producers: at least once is what is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_there_and_whose_number_is_not_taken_is_there_twice_rather_than_not() {
    let peer = Peer::start(&[Script::StoreAndCut, Script::Refuse(OUT_OF_ORDER)]).await;
    let transport = peer.transport().await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, TOPIC)).await), 3);
    assert_eq!(peer.stored(), [of(1, 0, 3), of(2, 0, 3)]);
}

/// By the number of a batch that may be there another one would be taken for it, and acknowledged without being stored.
#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_a_batch_that_may_be_there_is_no_other_batchs() {
    let peer = Peer::start(&[Script::StoreAndRefuse(UNKNOWN)]).await;
    let transport = peer.transport().await;
    let outcomes = send(&transport, batch(0, 3, TOPIC)).await;
    assert_eq!(outcomes.iter().map(unknown).collect::<Vec<_>>(), [Some("KAFKA.ERROR"); 3]);
    assert_eq!(acknowledged(&send(&transport, batch(3, 6, TOPIC)).await), 3);
    assert_eq!(peer.stored(), [of(1, 0, 3), of(2, 0, 3)], "both are there");
}

/// A disk that is full, or failed, takes the partition from its server until it leads it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_takes_nothing_is_waited_for_and_the_batch_stays_the_same() {
    let peer = Peer::start(&[Script::Refuse(STORAGE), Script::StoreAndRefuse(STORAGE)]).await;
    let transport = peer.transport().await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, TOPIC)).await), 3);
    assert_eq!(peer.came(), [of(1, 0, 3); 3]);
    assert_eq!(peer.stored(), [of(1, 0, 3)], "it is known again where it was stored");
}

/// One that stays full costs its messages an attempt, because nobody knows, and the next call finds none of them acknowledged. The call
/// waits for 15 seconds, for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_stays_full_acknowledges_nothing_and_has_its_code() {
    let peer = Peer::start(&[Script::Refuse(STORAGE); 1_000]).await;
    let transport = peer.transport().await;
    let outcomes = send(&transport, batch(0, 3, TOPIC)).await;
    assert_eq!(outcomes.iter().map(unknown).collect::<Vec<_>>(), [Some("KAFKA.STORAGE"); 3], "{outcomes:?}");
    peer.partition.lock().unwrap().script.clear();
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, TOPIC)).await), 3);
    assert_eq!(peer.stored(), [of(2, 0, 3)]);
}
