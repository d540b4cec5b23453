//! What all sessions of an instance share.

use super::{Address, Config, Link, Session, Tls};
use crate::deadline::Deadline;
use crate::host::net_types::TlsOptions;
use crate::secret;
use crate::transport::{OpenArgs, PluginError};

/// Names of the secrets for TLS.
const TLS_CA: &str = "tls_ca";
const TLS_CERT: &str = "tls_cert";
const TLS_KEY: &str = "tls_key";

/// A broker as this instance reaches it.
pub struct Endpoint<S: Session> {
    config: Config<S::Keys>,
    shared: S::Shared,
    /// Names of granted secrets.
    tls: TlsOptions,
}

impl<S: Session> Endpoint<S> {
    pub(super) fn new(args: &OpenArgs, config: Config<S::Keys>) -> Result<Self, PluginError> {
        let tls = granted::<S>(&config)?;
        let shared = S::share(args, &config, &tls)?;
        Ok(Self { config, shared, tls })
    }

    /// Without asking for secrets, as the host isn't there in a test.
    #[cfg(test)]
    pub(super) fn of(config: Config<S::Keys>, shared: S::Shared, tls: TlsOptions) -> Self {
        Self { config, shared, tls }
    }

    /// What the operator set.
    pub fn config(&self) -> &Config<S::Keys> {
        &self.config
    }

    /// What the protocol made of it.
    pub fn shared(&self) -> &S::Shared {
        &self.shared
    }

    /// Whether TLS is wanted with this server: by `tls`, its address, or a certificate that is granted.
    pub fn wants_tls(&self, address: &Address) -> bool {
        let granted = self.tls.ca_secret.is_some() || self.tls.client_cert_secret.is_some();
        match self.config.common.tls {
            Tls::Off => false,
            Tls::Auto => address.tls || granted,
            Tls::Required | Tls::First => true,
        }
    }

    /// Connects, with TLS from the first byte if `secure`.
    ///
    /// # Errors
    /// Not granted, nobody there, TLS failed, out of time.
    pub async fn connect(&self, address: &Address, secure: bool, deadline: Deadline) -> Result<Link, PluginError> {
        let tls = secure.then(|| self.tls_options(address));
        Link::connect(address, tls, S::CODES, deadline).await
    }

    /// Goes on in TLS, for a protocol that begins in plain text. See [`crate::net::Stream::start_tls`].
    ///
    /// # Errors
    /// The handshake failed; the link is of no more use.
    pub async fn start_tls(&self, link: &Link, deadline: Deadline) -> Result<(), PluginError> {
        link.start_tls(self.tls_options(link.address()), deadline).await
    }

    fn tls_options(&self, address: &Address) -> TlsOptions {
        let mut options = self.tls.clone();
        options.server_name.get_or_insert_with(|| address.verified().to_owned());
        options
    }
}

/// TLS by the secrets that are granted. Their values stay with the host; asking for them only tells which there are.
fn granted<S: Session>(config: &Config<S::Keys>) -> Result<TlsOptions, PluginError> {
    let granted = |name: &str| Ok::<_, PluginError>(secret::bytes(name, S::CODES.tls)?.map(|_| name.to_owned()));
    let client_cert_secret = granted(TLS_CERT)?;
    Ok(TlsOptions {
        server_name: config.common.tls_server_name.clone(),
        ca_secret: granted(TLS_CA)?,
        client_key_secret: client_cert_secret.is_some().then(|| TLS_KEY.to_owned()),
        client_cert_secret,
        alpn: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::{Fake, address};
    use super::*;

    fn endpoint(tls: &str, options: TlsOptions) -> Endpoint<Fake> {
        let config = crate::config::parse(&format!(r#"{{"tls":"{tls}"}}"#)).unwrap();
        Endpoint::of(config, Default::default(), options)
    }

    fn none() -> TlsOptions {
        TlsOptions {
            server_name: None,
            ca_secret: None,
            client_key_secret: None,
            client_cert_secret: None,
            alpn: Vec::new(),
        }
    }

    #[test]
    fn tls_is_wanted_by_the_setting_the_address_or_a_granted_certificate() {
        let (plain, secure) = (address("mqtt://a"), address("mqtts://a"));
        let ca = TlsOptions { ca_secret: Some(TLS_CA.to_owned()), ..none() };
        for (tls, options, expected) in [
            ("auto", none(), (false, true)),
            ("auto", ca.clone(), (true, true)),
            ("required", none(), (true, true)),
            ("first", none(), (true, true)),
            ("off", ca, (false, false)),
        ] {
            let endpoint = endpoint(tls, options);
            assert_eq!((endpoint.wants_tls(&plain), endpoint.wants_tls(&secure)), expected, "{tls}");
        }
    }

    #[test]
    fn the_name_to_verify_is_the_configured_one_or_the_address() {
        let named = TlsOptions { server_name: Some("broker.example".to_owned()), ..none() };
        assert_eq!(endpoint("auto", none()).tls_options(&address("mqtt://a")).server_name.unwrap(), "a");
        assert_eq!(endpoint("auto", named).tls_options(&address("mqtt://a")).server_name.unwrap(), "broker.example");
    }
}
