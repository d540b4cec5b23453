//! Certificates of the tests: made anew in each run, so that no key lies anywhere.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// A CA and what it signs.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// PEM of a certificate and its key.
pub struct Identity {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names, changed before it is signed.
    pub fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Identity { cert: params.signed_by(&key, &self.0).unwrap().pem(), key: key.serialize_pem() }
    }
}
