//! Why a host didn't do what was asked.

use std::time::Duration;

use thiserror::Error;
use waybill_core::code::Code;

use super::Refusal;
use crate::exit::Exit;

/// Why the host didn't do it.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address isn't one.
    #[error(
        "{}: {url:?} isn't an address of a host: {cause}\n  fix write --url http://HOST:PORT, or set WAYBILL_URL",
        Code::CLIENT_URL
    )]
    Url { url: String, cause: String },
    /// A name that no address can hold.
    #[error(
        "{}: {name:?} is taken out of every URL, so no host can be asked for it by its name\n  fix name it by a filter: --filter 'id={name}'",
        Code::CLIENT_URL
    )]
    Lost { name: String },
    /// The token can't be read.
    #[error(
        "{}: the token can't be read: {cause}\n  fix give --token-file FILE with one line, or set WAYBILL_TOKEN",
        Code::CLIENT_TOKEN
    )]
    Token { cause: String },
    /// The certificates to trust can't be read.
    #[error(
        "{}: {file} holds no usable certificates: {cause}\n  fix give --ca FILE, or WAYBILL_CA, with certificates in PEM",
        Code::CLIENT_CA
    )]
    Ca { file: String, cause: String },
    /// Who answers there can't prove to be the host.
    #[error(
        "{}: {url} can't be trusted: {cause}\n  fix give --ca FILE with the certificate of who signed the host's, or the name that its certificate is for in --url",
        Code::CLIENT_TLS
    )]
    Tls { url: String, cause: String },
    #[error(
        "{}: no host answers at {url}: {cause}\n  fix start one with `waybill serve`, or give --url",
        Code::CLIENT_UNREACHABLE
    )]
    Unreachable { url: String, cause: String },
    /// No answer in time.
    #[error("{}: {url} didn't answer within {}: what was asked may still be done\n  fix look with `waybill status`, or give a longer --timeout", Code::CLIENT_TIMEOUT, humantime::format_duration(*.after))]
    TimedOut { url: String, after: Duration },
    /// An answer that isn't ours.
    #[error(
        "{}: {url} answered {status} and not as a Waybill host does: {cause}\n  fix check that --url names a host and nothing else in between",
        Code::CLIENT_ANSWER
    )]
    Answer { url: String, status: u16, cause: String },
    /// The host said no.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
}

impl ClientError {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Url { .. } | Self::Lost { .. } | Self::Token { .. } | Self::Ca { .. } => Exit::Usage,
            Self::Unreachable { .. } | Self::Tls { .. } => Exit::Unreachable,
            Self::TimedOut { .. } => Exit::TimedOut,
            Self::Answer { .. } => Exit::Failed,
            Self::Refused(refusal) => refusal.exit(),
        }
    }
}
