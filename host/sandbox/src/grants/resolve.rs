//! Names to addresses, and addresses to connections: a port of its own, so that tests can answer what they like, the guard sees
//! every answer, and a test sees every connection that is tried.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::limits::RESOLVES_IN_FLIGHT_MAX;

/// Resolves names and connects. Everything that a plugin reaches goes through here, after it was judged.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a name, in order of preference. An empty answer counts as an unknown name.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// Connects to an address that was judged. Proxies of the environment play no part.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}

/// The machine's resolver (`getaddrinfo`), at most [`RESOLVES_IN_FLIGHT_MAX`] lookups at once, given-up ones included. It keeps
/// nothing.
#[derive(Debug)]
pub struct SystemResolver {
    in_flight: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { in_flight: Arc::new(Semaphore::new(RESOLVES_IN_FLIGHT_MAX)) }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = Arc::clone(&self.in_flight).acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        let lookup = tokio::task::spawn_blocking(move || {
            // With the thread, not with who waits for it: it can't be ended.
            let _permit = permit;
            // The port plays no part in the answer.
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        });
        lookup.await.map_err(io::Error::other)?
    }
}
