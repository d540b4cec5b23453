//! A server that says what a test wants: what real ones say only when something is wrong with them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A listener on loopback; each connection is served by the script in a thread of its own.
pub struct Fake {
    port: u16,
}

pub struct Peer {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

/// A published message: where its acknowledgement goes.
pub struct Published {
    pub reply: String,
}

pub const INFO: &str =
    r#"INFO {"server_id":"F","version":"2.9.10","headers":true,"jetstream":true,"max_payload":1048576}"#;

impl Fake {
    pub fn start(script: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Arc::new(script);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let script = Arc::clone(&script);
                let peer = Peer { reader: BufReader::new(stream.try_clone().unwrap()), writer: stream };
                thread::spawn(move || script(peer));
            }
        });
        Self { port }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Peer {
    pub fn say(&mut self, line: &str) {
        // Whoever has gone hears nothing.
        let _ = self.writer.write_all(format!("{line}\r\n").as_bytes());
    }

    /// Says INFO and answers CONNECT's ping.
    pub fn greet(&mut self, info: &str) {
        self.say(info);
        self.until("PING");
        self.say("PONG");
    }

    /// Reads lines until one that begins so.
    pub fn until(&mut self, start: &str) -> Option<String> {
        loop {
            let line = self.line()?;
            if line.starts_with(start) {
                return Some(line);
            }
        }
    }

    /// The next message; pings are answered on the way. None when the client has gone.
    pub fn published(&mut self) -> Option<Published> {
        loop {
            let line = self.line()?;
            if line == "PING" {
                self.say("PONG");
            }
            let words: Vec<&str> = line.split(' ').collect();
            if let ["HPUB", _, reply, _, total] = words.as_slice() {
                let mut body = vec![0; total.parse::<usize>().unwrap() + 2];
                self.reader.read_exact(&mut body).ok()?;
                return Some(Published { reply: (*reply).to_owned() });
            }
        }
    }

    pub fn acknowledge(&mut self, message: &Published, sequence: u64) {
        let ack = format!(r#"{{"stream":"ORDERS","seq":{sequence}}}"#);
        self.say(&format!("MSG {} 1 {}\r\n{ack}", message.reply, ack.len()));
    }

    /// Waits until the client goes.
    pub fn linger(&mut self) {
        while self.line().is_some() {}
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        Some(line.trim_end().to_owned())
    }
}
