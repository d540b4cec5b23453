//! Certificates of the tests: made anew in each run, so that no key lies anywhere.

use std::sync::{Arc, LazyLock};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SignatureAlgorithm,
    date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The CA that peers trust.
pub static CA: LazyLock<Ca> = LazyLock::new(|| Ca::new("Test CA"));
/// One that they don't.
pub static OTHER_CA: LazyLock<Ca> = LazyLock::new(|| Ca::new("Another CA"));

pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
    der: CertificateDer<'static>,
}

/// A certificate with its key.
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    pub certificate_pem: String,
    key: Vec<u8>,
    pub key_pem: String,
}

impl Ca {
    fn new(name: &str) -> Self {
        Self::with(name, &rcgen::PKCS_ECDSA_P256_SHA256)
    }

    /// A CA that signs with this algorithm.
    pub fn with(name: &str, algorithm: &'static SignatureAlgorithm) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { pem: certificate.pem(), der: certificate.der().clone(), issuer: Issuer::new(params, key) }
    }

    pub fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        Arc::new(roots)
    }

    /// A server's certificate for these names.
    pub fn server(&self, names: &[&str]) -> Identity {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, (2020, 2120))
    }

    pub fn expired(&self) -> Identity {
        self.sign(&["127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth, (2020, 2021))
    }

    pub fn not_yet_valid(&self) -> Identity {
        self.sign(&["127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth, (2119, 2120))
    }

    pub fn client(&self) -> Identity {
        self.sign(&["client"], ExtendedKeyUsagePurpose::ClientAuth, (2020, 2120))
    }

    fn sign(&self, names: &[&str], usage: ExtendedKeyUsagePurpose, years: (i32, i32)) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![usage];
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key: key.serialize_der(),
            key_pem: key.serialize_pem(),
        }
    }
}

impl Identity {
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }
}
