//! What went wrong with an exchange, told apart from the chain of causes of three libraries.

use std::error::Error;
use std::io;

use waybill_bindings::api::net_types::NetError;

use crate::grants::ConnectFailure;

/// An exchange without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: NetError,
    /// The request may have reached the peer.
    pub(crate) maybe_delivered: bool,
}

impl Failure {
    /// A failure before anything was sent.
    pub(super) fn unsent(error: NetError) -> Self {
        Self { error, maybe_delivered: false }
    }
}

impl From<ConnectFailure> for Failure {
    fn from(failure: ConnectFailure) -> Self {
        Self::unsent(net_error(failure))
    }
}

/// A connect failure in the contract's words.
pub(crate) fn net_error(failure: ConnectFailure) -> NetError {
    match failure {
        ConnectFailure::Denied(why) => NetError::Denied(why),
        ConnectFailure::BadAddress(why) => NetError::Unsupported(why),
        ConnectFailure::Resolve(why) => NetError::Resolve(why),
        ConnectFailure::Refused => NetError::Refused,
        ConnectFailure::Timeout => NetError::Timeout,
        ConnectFailure::Other(why) => NetError::Other(why),
    }
}

/// The class of an error, by the most telling cause in its chain.
pub(super) fn classify(error: &(dyn Error + 'static)) -> NetError {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref::<ConnectFailure>() {
            return net_error(found.clone());
        }
        if let Some(found) = cause.downcast_ref::<rustls::Error>() {
            return NetError::Tls(found.to_string());
        }
        if let Some(found) = cause.downcast_ref::<hyper::Error>()
            && (found.is_incomplete_message() || found.is_canceled())
        {
            return NetError::Reset("the peer closed the connection before its answer was complete".to_owned());
        }
        if let Some(found) = cause.downcast_ref::<io::Error>() {
            // An io::Error wraps others without showing them as its source.
            if let Some(inner) = found.get_ref() {
                let inner: &(dyn Error + 'static) = inner;
                match classify(inner) {
                    NetError::Other(_) => {}
                    telling => return telling,
                }
            }
            match found.kind() {
                io::ErrorKind::ConnectionRefused => return NetError::Refused,
                io::ErrorKind::TimedOut => return NetError::Timeout,
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => return NetError::Reset(found.to_string()),
                _ => {}
            }
        }
        text = cause.to_string();
        next = cause.source();
    }
    NetError::Other(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_found_below_wrappers() {
        let wrapped = io::Error::other(io::Error::other(rustls::Error::DecryptError));
        assert!(matches!(classify(&wrapped), NetError::Tls(_)));
        let refused = io::Error::other(ConnectFailure::Refused);
        assert!(matches!(classify(&refused), NetError::Refused));
        let broken = io::Error::new(io::ErrorKind::ConnectionReset, "gone");
        assert!(matches!(classify(&broken), NetError::Reset(_)));
        assert!(matches!(classify(&io::Error::other("what")), NetError::Other(text) if text == "what"));
    }
}
