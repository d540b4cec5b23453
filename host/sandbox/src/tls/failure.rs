//! What went wrong with TLS, for the one who configures it: one sentence that says what to do.

use std::io;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};
use waybill_bindings::api::net_types::NetError;
use waybill_core::time::UnixMillis;

use super::client::TlsPeer;
use crate::text::cut;

/// Names of a peer's certificate that an error shows.
const NAMES_SHOWN: usize = 5;

impl TlsPeer {
    /// Why the handshake failed. A peer that hangs up may be restarting: that is no verdict on the configuration.
    pub(super) fn handshake_failed(&self, error: &io::Error) -> NetError {
        let peer = &self.address;
        match cause(error) {
            Some(error) => NetError::Tls(self.explain(error)),
            None if error.kind() == io::ErrorKind::UnexpectedEof => NetError::Reset(format!(
                "{peer} closed the connection during the TLS handshake: if it goes on doing so, it may not take TLS there"
            )),
            None => NetError::Reset(format!("the TLS handshake with {peer} broke off: {error}")),
        }
    }

    /// Why an established stream failed. A certificate that the peer refuses is told only now in TLS 1.3.
    pub(crate) fn stream_failed(&self, error: &io::Error) -> NetError {
        match cause(error) {
            Some(error @ Error::AlertReceived(alert)) if is_about_identity(*alert) => {
                NetError::Tls(self.explain(error))
            }
            Some(error) => NetError::Reset(format!("the TLS stream broke: {error}{}", self.likely_cause(error))),
            None if error.kind() == io::ErrorKind::UnexpectedEof => NetError::Reset(format!(
                "truncated: {} closed the connection without ending TLS (close_notify), so what came may not be all",
                self.address
            )),
            None => NetError::Reset(error.to_string()),
        }
    }

    fn explain(&self, error: &Error) -> String {
        let peer = &self.address;
        match error {
            Error::InvalidCertificate(error) => self.explain_certificate(error),
            Error::AlertReceived(alert) => self.explain_alert(*alert),
            Error::InvalidMessage(_) => {
                format!("{peer} doesn't speak TLS there: connect without TLS, or to the port where it does")
            }
            Error::PeerIncompatible(why) => format!("{peer} and this host have no way of TLS in common: {why:?}"),
            other => format!("TLS with {peer} failed: {other}"),
        }
    }

    fn explain_certificate(&self, error: &CertificateError) -> String {
        let peer = &self.address;
        match error {
            CertificateError::Expired => format!("the certificate of {peer} has expired: renew it"),
            CertificateError::ExpiredContext { not_after, .. } => {
                format!("the certificate of {peer} expired on {}: renew it", date(*not_after))
            }
            CertificateError::NotValidYet => {
                format!("the certificate of {peer} isn't valid yet: replace it, or set this machine's clock right")
            }
            CertificateError::NotValidYetContext { not_before, .. } => format!(
                "the certificate of {peer} isn't valid before {}: replace it, or set this machine's clock right",
                date(*not_before)
            ),
            CertificateError::UnknownIssuer | CertificateError::BadSignature => match &self.options.ca_secret {
                Some(secret) => format!(
                    "the certificate of {peer} isn't signed by a CA of the secret {secret:?}: grant the CA that signed it"
                ),
                None => format!(
                    "the certificate of {peer} is signed by an unknown issuer: grant its CA as a secret, which a broker's plugin takes as tls_ca \
                     (ca-secret in the contract)"
                ),
            },
            CertificateError::NotValidForName => self.wrong_name(&[]),
            CertificateError::NotValidForNameContext { presented, .. } => self.wrong_name(presented),
            CertificateError::Revoked => format!("the certificate of {peer} is revoked: replace it"),
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                format!("the certificate of {peer} isn't made for servers: give it the extended key usage serverAuth")
            }
            other => format!("the certificate of {peer} isn't accepted ({other}): replace it"),
        }
    }

    fn wrong_name(&self, presented: &[String]) -> String {
        let names: Vec<&str> = presented.iter().take(NAMES_SHOWN).map(|name| cut(name, 128)).collect();
        let holds = if names.is_empty() { String::new() } else { format!(" but for {}", names.join(", ")) };
        format!(
            "the certificate of {} isn't for {}{holds}: set server-name to a name it has, or replace it",
            self.address, self.server_name
        )
    }

    fn explain_alert(&self, alert: AlertDescription) -> String {
        let peer = &self.address;
        let own = self.options.client_cert_secret.as_deref();
        match (alert, own) {
            (AlertDescription::CertificateRequired, None) => self.identity_wanted(""),
            (AlertDescription::HandshakeFailure | AlertDescription::BadCertificate, None) => {
                self.identity_wanted(", or no cipher suite of this host")
            }
            (alert, Some(secret)) if is_about_identity(alert) => format!(
                "{peer} refuses the client certificate of the secret {secret:?} ({alert:?}): use one that its CA signed and \
                 that is valid now"
            ),
            (AlertDescription::ProtocolVersion, _) => {
                format!("{peer} takes neither TLS 1.2 nor 1.3: older versions aren't spoken")
            }
            (AlertDescription::NoApplicationProtocol, _) => {
                format!("{peer} takes none of the protocols offered ({}): change alpn", self.options.alpn.join(", "))
            }
            (AlertDescription::UnrecognisedName, _) => {
                format!("{peer} doesn't know the name {}: set server-name", self.server_name)
            }
            (alert, _) => format!("{peer} ended TLS with the alert {alert:?}"),
        }
    }

    /// What may be behind an alert that says nothing of a client certificate: Pulsar's brokers send no other one when they refuse it.
    fn likely_cause(&self, error: &Error) -> String {
        match (error, self.options.client_cert_secret.as_deref()) {
            (Error::AlertReceived(AlertDescription::InternalError), Some(secret)) => {
                format!(
                    ": if it goes on doing so, {} may refuse the client certificate of the secret {secret:?}",
                    self.address
                )
            }
            _ => String::new(),
        }
    }

    fn identity_wanted(&self, or: &str) -> String {
        format!(
            "{} wants a client certificate{or}: grant certificate and key as secrets, which a broker's plugin takes as tls_cert \
             and tls_key (client-cert-secret and client-key-secret in the contract)",
            self.address
        )
    }
}

/// Alerts with which a peer refuses this side's certificate or the lack of one.
fn is_about_identity(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError
            | AlertDescription::HandshakeFailure
    )
}

fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn date(time: UnixTime) -> UnixMillis {
    UnixMillis(time.as_secs().saturating_mul(1000))
}
