//! A server that does what no real one can be brought to: cuts logins without a word, acknowledges nothing.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const CONNECT: u8 = 0x10;
const PINGREQ: u8 = 0xc0;
/// Where the version stands in the body of CONNECT.
const LEVEL_AT: usize = 6;
/// The number of 3.1.1 there.
pub const LEVEL_311: u8 = 4;
/// That of MQTT 5.
pub const LEVEL_5: u8 = 5;

/// Lets some logins in, answers signs of life, and acknowledges nothing.
pub struct Fake {
    port: u16,
    levels: Arc<Mutex<Vec<u8>>>,
}

impl Fake {
    /// Lets in whom this says by the number of the login, from 0, and the version; others are cut.
    pub async fn start(lets_in: impl Fn(usize, u8) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let levels: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (seen, lets_in) = (Arc::clone(&levels), Arc::new(lets_in));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, lets_in) = (Arc::clone(&seen), Arc::clone(&lets_in));
                tokio::spawn(async move {
                    let is_let_in = |level| {
                        let mut seen = seen.lock().unwrap();
                        seen.push(level);
                        lets_in(seen.len() - 1, level)
                    };
                    // It ends when the client goes.
                    let _ = serve(stream, is_let_in).await;
                });
            }
        });
        Self { port, levels }
    }

    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// Versions of the logins so far, in their order.
    pub fn levels(&self) -> Vec<u8> {
        self.levels.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, is_let_in: impl Fn(u8) -> bool) -> std::io::Result<()> {
    loop {
        let first = stream.read_u8().await?;
        let (mut size, mut shift) = (0_usize, 0);
        loop {
            let byte = stream.read_u8().await?;
            size |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; size];
        stream.read_exact(&mut body).await?;
        match first {
            CONNECT if !is_let_in(body[LEVEL_AT]) => return Ok(()),
            CONNECT if body[LEVEL_AT] == LEVEL_5 => stream.write_all(b"\x20\x03\0\0\0").await?,
            CONNECT => stream.write_all(b"\x20\x02\0\0").await?,
            PINGREQ => stream.write_all(b"\xd0\0").await?,
            _ => {}
        }
    }
}
