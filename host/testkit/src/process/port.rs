//! Ports for servers that tests start.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports are looked for here, below those that the system gives to clients.
const PORTS: std::ops::Range<u16> = 21_000..29_000;
/// Between the places where processes with neighbouring ids begin: more ports than one of them takes.
const APART: usize = 199;

/// A port of loopback that nobody listens on now, and that no other server of this process gets.
///
/// # Errors
/// All are taken.
pub fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes of parallel tests begin at different places: a server listens on its port some time after it was given.
    let start = std::process::id() as usize * APART;
    for _ in PORTS {
        let place = start + usize::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + u16::try_from(place % PORTS.len()).unwrap_or_default();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::other("no port is free for a server"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_port_is_given_once() {
        assert_ne!(free_port().unwrap(), free_port().unwrap());
    }
}
