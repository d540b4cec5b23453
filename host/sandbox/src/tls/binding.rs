//! Channel bindings: what ties an authentication inside a TLS connection to that connection.
//!
//! TLS 1.3: `tls-exporter` (RFC 9266). TLS 1.2: `tls-server-end-point` (RFC 5929), the hash of the server's certificate by
//! the hash of its signature; none where that signature has no single hash, as the RFC leaves it undefined.

use rustls::ProtocolVersion;
use rustls::client::ClientConnection;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";
const EXPORTER_BYTES: usize = 32;
const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;
/// Below this object id are RSA's signature algorithms (RFC 8017); the last number is the algorithm.
const PKCS1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// The same for ECDSA with SHA-2 (RFC 5758).
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// ECDSA with SHA-1.
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];

/// The binding of an established connection.
pub(super) fn channel_binding(connection: &ClientConnection) -> Option<Vec<u8>> {
    match connection.protocol_version()? {
        ProtocolVersion::TLSv1_3 => {
            connection.export_keying_material(vec![0; EXPORTER_BYTES], EXPORTER_LABEL, Some(&[])).ok()
        }
        ProtocolVersion::TLSv1_2 => end_point(connection.peer_certificates()?.first()?),
        _ => None,
    }
}

fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let object_id = signature_object_id(certificate)?;
    let digest = |name| {
        Some(match name {
            "sha224" => Sha224::digest(certificate).to_vec(),
            "sha384" => Sha384::digest(certificate).to_vec(),
            "sha512" => Sha512::digest(certificate).to_vec(),
            // MD5 and SHA-1 count as SHA-256.
            _ => Sha256::digest(certificate).to_vec(),
        })
    };
    if object_id == ECDSA_SHA1 {
        return digest("sha1");
    }
    let (last, family) = object_id.split_last()?;
    match (family, last) {
        (PKCS1, 4 | 5 | 11) | (ECDSA_SHA2, 2) => digest("sha256"),
        (PKCS1, 14) | (ECDSA_SHA2, 1) => digest("sha224"),
        (PKCS1, 12) | (ECDSA_SHA2, 3) => digest("sha384"),
        (PKCS1, 13) | (ECDSA_SHA2, 4) => digest("sha512"),
        _ => None,
    }
}

/// `Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { algorithm OBJECT IDENTIFIER ... } ... }`
fn signature_object_id(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, after_signed_part) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(after_signed_part, SEQUENCE)?;
    Some(element(algorithm, OBJECT_ID)?.0)
}

/// Content of the first DER element, which must have this tag, and what comes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    if *first != tag {
        return None;
    }
    match length {
        0..=0x7f => rest.split_at_checked(usize::from(*length)),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            rest.split_at_checked(bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
        }
        _ => None,
    }
}
