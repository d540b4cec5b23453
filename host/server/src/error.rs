//! Why the server can't be started.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;
use waybill_core::code::Code;

/// A failure before or outside of any request.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Listening where others reach it, with nothing that keeps them out.
    #[error(
        "listening on {address} would let anybody on the network in, because [auth] required = false: leave it out \
         or set it to true, or listen on loopback (127.0.0.1:{port} or [::1]:{port})",
        port = address.port()
    )]
    Listen { address: SocketAddr },
    /// Listening behind a proxy, which lets others reach loopback, with nothing that keeps them out.
    #[error(
        "listening on {address} with server.behind_tls_proxy would let in whoever reaches the proxy, because [auth] \
         required = false: leave it out or set it to true, or leave server.behind_tls_proxy out and have no proxy in front"
    )]
    OpenProxy { address: SocketAddr },
    /// Listening where others reach it, in clear text.
    #[error(
        "listening on {address} in clear text would let others on the network read tokens and messages: give [server.tls] \
         cert and key, or set server.behind_tls_proxy = true if a proxy in front speaks TLS and nobody else reaches this \
         address, or listen on loopback (127.0.0.1:{port} or [::1]:{port})",
        port = address.port()
    )]
    ClearText { address: SocketAddr },
    /// The certificate or its key can't be used.
    #[error("{setting} = {file:?} can't be used: {cause}; {fix}")]
    Tls {
        /// Which of the two files.
        setting: &'static str,
        file: PathBuf,
        /// What is wrong with it. Never quotes a key.
        cause: String,
        fix: &'static str,
    },
    /// The address can't be bound.
    #[error(
        "can't listen on {address}: {cause}; choose another address with --listen or [server] listen, or end the program that holds it"
    )]
    Bind {
        address: String,
        /// What the system said.
        cause: io::Error,
    },
    /// A token's record is unusable.
    #[error("token {name:?} isn't usable: {cause}")]
    Token {
        name: String,
        /// What is wrong, and what to write.
        cause: String,
    },
    /// What asks the provider of `[auth.oidc]` can't be made.
    #[error(
        "nothing can be asked of the provider of [auth.oidc]: {cause}; check the certificates that this machine trusts"
    )]
    Oidc { cause: String },
    /// The key that signs links for approvals is too short.
    #[error(
        "the key of saga.approval_key has {bytes} bytes, at least {bytes_min} are needed: make one, e.g. with \
         `openssl rand -hex 32`"
    )]
    ApprovalKey {
        bytes: usize,
        /// The shortest that is taken.
        bytes_min: usize,
    },
    /// A metrics recorder is installed already, or a bucket list is unusable.
    #[error("metrics can't be set up: {0}")]
    Metrics(String),
}

impl ServerError {
    pub fn code(&self) -> Code {
        match self {
            Self::Listen { .. } | Self::OpenProxy { .. } => Code::CONFIG_LISTEN,
            Self::ClearText { .. } => Code::CONFIG_CLEAR_TEXT,
            Self::Tls { .. } | Self::Oidc { .. } => Code::CONFIG_TLS,
            Self::Bind { .. } => Code::CONFIG_BIND,
            Self::Token { .. } => Code::CONFIG_TOKEN,
            Self::ApprovalKey { .. } => Code::CONFIG_SECRET,
            Self::Metrics(_) => Code::UNKNOWN_INTERNAL,
        }
    }
}
