//! The service that the steps call: HTTP/1.1 on a local port, idempotent by key, with a ledger of every call.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::laws;

/// One call, in the order in which it was decided.
#[derive(Clone, Debug)]
pub struct Called {
    pub saga: String,
    pub step: String,
    pub way: String,
    pub attempt: u32,
    pub key: String,
    /// What it was answered, if the host lived to read it.
    pub status: u16,
}

pub struct Service {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Called>>>,
}

impl Service {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let ledger = Arc::clone(&calls);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let ledger = Arc::clone(&ledger);
                // A connection that breaks was the host's.
                tokio::spawn(async move { serve(stream, &ledger).await });
            }
        });
        Self { address, calls }
    }

    pub fn url(&self, step: &str) -> String {
        format!("http://{}/{step}", self.address)
    }

    pub fn calls(&self) -> Vec<Called> {
        self.calls.lock().clone()
    }

    /// Sagas from `from` on, without a gap, that have called: they were surely started.
    pub fn seen_up_to(&self, from: usize) -> usize {
        let calls = self.calls.lock();
        let mut next = from;
        while calls.iter().any(|call| call.saga == laws::id(next)) {
            next += 1;
        }
        next
    }
}

async fn serve(stream: TcpStream, ledger: &Mutex<Vec<Called>>) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = String::new();
        if read.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            read.read_line(&mut line).await?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
                None => break,
            };
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        read.read_exact(&mut body).await?;
        let (status, hold) = decide(&headers, ledger);
        tokio::time::sleep(hold).await;
        let answer = format!("{{\"status\":{status}}}");
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        write.write_all(format!("{head}{answer}").as_bytes()).await?;
    }
}

/// Notes a call and says how it is answered: by the saga's id, the step and the attempt alone.
fn decide(headers: &BTreeMap<String, String>, ledger: &Mutex<Vec<Called>>) -> (u16, Duration) {
    let text = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let mut call = Called {
        saga: text("waybill-saga-id"),
        step: text("waybill-saga-step"),
        way: text("waybill-saga-direction"),
        attempt: text("waybill-saga-attempt").parse().unwrap_or(0),
        key: text("idempotency-key"),
        status: 200,
    };
    let seed: u32 = call
        .key
        .bytes()
        .chain(call.attempt.to_le_bytes())
        .fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    if call.way == "execute" && laws::refused_at(&call.saga) == Some(call.step.as_str()) {
        call.status = 422;
    } else if seed.is_multiple_of(7) && call.attempt < 20 {
        call.status = 503;
    }
    let answer = (call.status, Duration::from_millis(u64::from(seed / 7 % 30)));
    ledger.lock().push(call);
    answer
}
