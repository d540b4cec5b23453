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
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Peer {
    pub fn say(&mut self, line: &str) {
        // Whoever has gone hears nothing.
        let _ = self.writer.write_all(format!("{line}\r\n").as_bytes());
    }

    /// Says an entry's id.
    pub fn entry(&mut self, id: &str) {
        self.say(&format!("${}\r\n{id}", id.len()));
    }

    /// The next command. None when the client has gone.
    pub fn command(&mut self) -> Option<Vec<String>> {
        let count: usize = self.line()?.strip_prefix('*')?.parse().unwrap();
        let word = |peer: &mut Self| {
            let length: usize = peer.line()?.strip_prefix('$')?.parse().unwrap();
            let mut bytes = vec![0; length + 2];
            peer.reader.read_exact(&mut bytes).ok()?;
            bytes.truncate(length);
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        (0..count).map(|_| word(self)).collect()
    }

    /// The next command with a message, or `WAIT`; those of the greeting are answered on the way.
    pub fn published(&mut self) -> Option<Vec<String>> {
        loop {
            let words = self.command()?;
            match words[0].as_str() {
                "HELLO" => self.say("%2\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nrole\r\n$6\r\nmaster"),
                "PING" => self.say("+PONG"),
                "CONFIG" => self.say("%0"),
                "SELECT" => self.say("+OK"),
                _ => return Some(words),
            }
        }
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
