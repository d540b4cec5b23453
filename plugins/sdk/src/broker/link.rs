//! The stream below a session.

use super::Address;
use crate::deadline::Deadline;
use crate::exchange::Broken;
use crate::host::net_types::{NetError, TlsOptions};
use crate::net::{self, Options, Stream};
use crate::transport::PluginError;

/// Codes of what goes wrong below a protocol, e.g. `NATS.LOST`. Written out for each broker, since each has a page.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    /// The grant doesn't reach the server.
    pub denied: &'static str,
    /// TLS, or a secret for it.
    pub tls: &'static str,
    /// The host can't do it.
    pub unsupported: &'static str,
    /// The name isn't known.
    pub resolve: &'static str,
    /// Nobody listens, or no server takes us.
    pub refused: &'static str,
    /// No answer in time.
    pub timeout: &'static str,
    /// The host ended the call.
    pub cancelled: &'static str,
    /// A limit of the grant.
    pub limit: &'static str,
    /// The connection ended or broke, or anything else went wrong with it.
    pub lost: &'static str,
}

impl Codes {
    /// A failure of the stream as that of the call.
    pub fn lost(&self, error: &NetError) -> PluginError {
        let code = match error {
            NetError::Denied(_) => self.denied,
            NetError::Tls(_) => self.tls,
            NetError::Unsupported(_) => self.unsupported,
            NetError::Resolve(_) => self.resolve,
            NetError::Refused => self.refused,
            NetError::Timeout => self.timeout,
            NetError::Cancelled => self.cancelled,
            NetError::Limit(_) => self.limit,
            NetError::Closed | NetError::Reset(_) | NetError::Busy | NetError::Other(_) => self.lost,
        };
        net::failure(code, error)
    }

    /// The end of a conversation as the failure of the call; `silent` is the protocol's word for no answer.
    pub fn broken(&self, broken: Broken, silent: impl FnOnce() -> PluginError) -> PluginError {
        match broken {
            Broken::Silent => silent(),
            Broken::Lost(error) => self.lost(&error),
            Broken::Refused(error) => error,
        }
    }
}

/// A stream to one server. Each step gets what is left of the deadline.
pub struct Link {
    stream: Stream,
    address: Address,
    codes: &'static Codes,
}

impl Link {
    pub(super) async fn connect(
        address: &Address,
        tls: Option<TlsOptions>,
        codes: &'static Codes,
        deadline: Deadline,
    ) -> Result<Self, PluginError> {
        let options = Options { timeout: left(codes, deadline)?, tls };
        let stream = Stream::connect(&address.uri(), options).await.map_err(|error| codes.lost(&error))?;
        Ok(Self { stream, address: address.clone(), codes })
    }

    /// The server that this link is connected to.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The stream itself, for [`crate::exchange`].
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) async fn start_tls(&self, tls: TlsOptions, deadline: Deadline) -> Result<(), PluginError> {
        let time = left(self.codes, deadline)?;
        self.stream.start_tls(tls, time).await.map_err(|error| self.codes.lost(&error))
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// It may be partly sent: the session is of no more use.
    pub async fn write(&self, bytes: Vec<u8>, deadline: Deadline) -> Result<(), PluginError> {
        let time = left(self.codes, deadline)?;
        self.stream.write(bytes, time).await.map_err(|error| self.codes.lost(&error))
    }

    /// Waits for bytes and answers all that are there, at least one.
    ///
    /// # Errors
    /// None came in time, or the stream ended.
    pub async fn receive(&self, deadline: Deadline) -> Result<Vec<u8>, PluginError> {
        let time = left(self.codes, deadline)?;
        self.stream.receive(time).await.map_err(|error| self.codes.lost(&error))
    }

    /// What has come already, without waiting; empty if nothing has.
    ///
    /// # Errors
    /// The stream ended.
    pub async fn receive_ready(&self) -> Result<Vec<u8>, PluginError> {
        self.stream.receive_ready().await.map_err(|error| self.codes.lost(&error))
    }

    /// Ends the writing side.
    pub async fn finish(&self) {
        // A stream that is broken already needs no end.
        let _ = self.stream.finish().await;
    }
}

fn left(codes: &Codes, deadline: Deadline) -> Result<u32, PluginError> {
    deadline.left().ok_or_else(|| codes.lost(&NetError::Timeout))
}
