//! Names to addresses: a port of its own, so that tests can answer what they like and the guard sees every answer.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use crate::limits::RESOLVES_IN_FLIGHT_MAX;

/// Resolves names.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a name, in order of preference. An empty answer counts as an unknown name.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The machine's resolver (`getaddrinfo`), at most [`RESOLVES_IN_FLIGHT_MAX`] lookups at once. It keeps nothing.
#[derive(Debug)]
pub struct SystemResolver {
    in_flight: Semaphore,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { in_flight: Semaphore::new(RESOLVES_IN_FLIGHT_MAX) }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let _permit = self.in_flight.acquire().await.map_err(io::Error::other)?;
        // The port plays no part in the answer.
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}
