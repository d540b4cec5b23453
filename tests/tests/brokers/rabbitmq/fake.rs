//! A server that says what a test wants: what a real one says only when something is wrong with it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A listener on loopback; each connection is served by the script in a thread of its own.
pub struct Fake {
    port: u16,
}

pub struct Peer {
    stream: TcpStream,
    /// Methods of published messages that were read.
    pub published: u64,
}

impl Fake {
    pub fn start(script: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Arc::new(script);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let script = Arc::clone(&script);
                thread::spawn(move || script(Peer { stream, published: 0 }));
            }
        });
        Self { port }
    }

    pub fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.port)
    }
}

impl Peer {
    pub fn say_bytes(&mut self, bytes: &[u8]) {
        // Whoever has gone hears nothing.
        let _ = self.stream.write_all(bytes);
    }

    pub fn say(&mut self, channel: u16, id: (u16, u16), arguments: &[u8]) {
        let mut frame = vec![1];
        frame.extend(channel.to_be_bytes());
        frame.extend(u32::try_from(arguments.len() + 4).unwrap().to_be_bytes());
        frame.extend(id.0.to_be_bytes());
        frame.extend(id.1.to_be_bytes());
        frame.extend(arguments);
        frame.push(0xce);
        self.say_bytes(&frame);
    }

    /// Reads the greeting and says who it is: a server with these capabilities.
    pub fn start(&mut self, capability: &str) -> Option<()> {
        let mut hello = [0; 8];
        self.stream.read_exact(&mut hello).ok()?;
        assert_eq!(&hello, b"AMQP\0\0\x09\x01");
        let inner = [short(capability), b"t\x01".to_vec()].concat();
        let properties =
            [short("product"), b"S".to_vec(), long(b"Fake"), short("capabilities"), b"F".to_vec(), long(&inner)];
        let arguments = [vec![0, 9], long(&properties.concat()), long(b"PLAIN"), long(b"en_US")].concat();
        self.say(0, (10, 10), &arguments);
        Some(())
    }

    /// The whole greeting up to confirms; heartbeats of this many seconds.
    pub fn greet(&mut self, heartbeat: u16) -> Option<()> {
        self.start("publisher_confirms")?;
        self.until((10, 11))?;
        self.say(0, (10, 30), &[&[0, 0, 0, 1, 0, 0], &heartbeat.to_be_bytes()[..]].concat());
        self.until((10, 40))?;
        self.say(0, (10, 41), &[0]);
        self.until((85, 10))?;
        self.say(1, (20, 11), &[0; 4]);
        self.say(1, (85, 11), &[]);
        Some(())
    }

    /// Answers questions for exchanges and reads until this many messages were published, all together. None when the client
    /// has gone.
    pub fn until_published(&mut self, count: u64) -> Option<()> {
        while self.published < count {
            let (kind, _, payload) = self.frame()?;
            match payload.get(..4) {
                Some([0, 60, 0, 40]) if kind == 1 => self.published += 1,
                _ => self.answer(kind, &payload),
            }
        }
        // The content of the last one.
        loop {
            let (kind, _, payload) = self.frame()?;
            if kind == 3 {
                return Some(());
            }
            self.answer(kind, &payload);
        }
    }

    /// Opens the channel for questions, and says that every exchange is there.
    fn answer(&mut self, kind: u8, payload: &[u8]) {
        match payload.get(..4) {
            Some([0, 20, 0, 10]) if kind == 1 => self.say(2, (20, 11), &[0; 4]),
            Some([0, 40, 0, 10]) if kind == 1 => self.say(2, (40, 11), &[]),
            _ => {}
        }
    }

    pub fn confirm(&mut self, tag: u64, multiple: bool) {
        self.say(1, (60, 80), &[&tag.to_be_bytes()[..], &[u8::from(multiple)]].concat());
    }

    pub fn close(&mut self, channel: u16, code: u16, text: &str) {
        let id = if channel == 0 { (10, 50) } else { (20, 40) };
        self.say(channel, id, &[code.to_be_bytes().to_vec(), short(text), vec![0; 4]].concat());
    }

    /// `connection.blocked` with a reason, or `connection.unblocked`.
    pub fn block(&mut self, reason: Option<&str>) {
        match reason {
            Some(reason) => self.say(0, (10, 60), &short(reason)),
            None => self.say(0, (10, 61), &[]),
        }
    }

    /// Reads until the client says this method.
    pub fn until(&mut self, id: (u16, u16)) -> Option<()> {
        let wanted = [id.0.to_be_bytes(), id.1.to_be_bytes()].concat();
        loop {
            let (kind, _, payload) = self.frame()?;
            if kind == 1 && payload.starts_with(&wanted) {
                return Some(());
            }
        }
    }

    /// Reads until the client sends a heartbeat.
    pub fn until_heartbeat(&mut self) -> Option<()> {
        while self.frame()?.0 != 8 {}
        Some(())
    }

    /// Answers what is asked until the client goes.
    pub fn linger(&mut self) {
        while let Some((kind, _, payload)) = self.frame() {
            self.answer(kind, &payload);
        }
    }

    fn frame(&mut self) -> Option<(u8, u16, Vec<u8>)> {
        let mut head = [0; 7];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[3..].try_into().unwrap()) as usize;
        let mut payload = vec![0; length + 1];
        self.stream.read_exact(&mut payload).ok()?;
        assert_eq!(payload.pop(), Some(0xce));
        Some((head[0], u16::from_be_bytes([head[1], head[2]]), payload))
    }
}

fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}
