//! Which ID tokens count (OpenID Connect Core 1.0, section 3.1.3.7).
//!
//! Signed with a key of the provider by an asymmetric algorithm: a shared secret, or a public key taken for one, signs nothing here.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::limits::PROVIDER_LEEWAY;

/// Keys of a provider that sign, by its set of keys (RFC 7517).
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Jwk>);

/// A set of keys as it is sent. Of kinds that aren't known here there may be some.
#[derive(Debug, Deserialize)]
pub(super) struct KeySet {
    keys: Vec<Value>,
}

/// What an ID token has to be for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
}

/// Why an ID token doesn't count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Refused {
    #[error("it can't be read")]
    Unreadable,
    #[error("it isn't signed by an algorithm that is taken: RS256 to RS512, PS256 to PS512, ES256, ES384 or EdDSA")]
    Algorithm,
    #[error("it is signed with a key that isn't among the provider's")]
    UnknownKey,
    #[error("its signature isn't right")]
    Signature,
    #[error("it is of another issuer")]
    Issuer,
    #[error("it is for another client")]
    Audience,
    #[error("it is past its time, or not yet good: compare the clocks of this host and of the provider")]
    Time,
    #[error("it is for another sign-in")]
    Nonce,
    #[error("it lacks iss, sub, aud or exp")]
    Claims,
}

impl Keys {
    pub(super) fn of(set: KeySet) -> Self {
        let signs =
            |key: &Jwk| !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_)));
        Self(set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).filter(signs).collect())
    }

    /// The key that a token says it is signed with. A token that names none is signed with the only one that fits.
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Jwk> {
        let mut fitting = self
            .0
            .iter()
            .filter(|key| fits(key, algorithm) && id.is_none_or(|id| key.common.key_id.as_deref() == Some(id)));
        let first = fitting.next()?;
        (id.is_some() || fitting.next().is_none()).then_some(first)
    }
}

/// Whether an algorithm is taken, and a key is one for it. No secret is one for any.
fn fits(key: &Jwk, algorithm: Algorithm) -> bool {
    let is_kind = match &key.algorithm {
        AlgorithmParameters::RSA(_) => is_rsa(algorithm),
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => algorithm == Algorithm::ES256,
            EllipticCurve::P384 => algorithm == Algorithm::ES384,
            EllipticCurve::P521 | EllipticCurve::Ed25519 => false,
        },
        AlgorithmParameters::OctetKeyPair(pair) => {
            pair.curve == EllipticCurve::Ed25519 && algorithm == Algorithm::EdDSA
        }
        AlgorithmParameters::OctetKey(_) => false,
    };
    // Both are written as the standard has them.
    is_kind && key.common.key_algorithm.is_none_or(|named| named.to_string() == format!("{algorithm:?}"))
}

fn is_rsa(algorithm: Algorithm) -> bool {
    use Algorithm::{PS256, PS384, PS512, RS256, RS384, RS512};
    matches!(algorithm, RS256 | RS384 | RS512 | PS256 | PS384 | PS512)
}

fn is_taken(algorithm: Algorithm) -> bool {
    is_rsa(algorithm) || matches!(algorithm, Algorithm::ES256 | Algorithm::ES384 | Algorithm::EdDSA)
}

/// The claims of an ID token that counts.
pub(super) fn verify(token: &str, keys: &Keys, expected: Expected<'_>) -> Result<Value, Refused> {
    let Expected { issuer, client_id, nonce } = expected;
    // An algorithm that isn't known, such as `none`, can't be read.
    let header = decode_header(token).map_err(|error| match error.kind() {
        ErrorKind::Json(_) => Refused::Algorithm,
        _ => Refused::Unreadable,
    })?;
    if !is_taken(header.alg) {
        return Err(Refused::Algorithm);
    }
    // What it says must be understood isn't (RFC 7515, section 4.1.11).
    if header.crit.is_some() {
        return Err(Refused::Unreadable);
    }
    let key = keys.find(header.kid.as_deref(), header.alg).ok_or(Refused::UnknownKey)?;
    let key = DecodingKey::from_jwk(key).map_err(|_| Refused::UnknownKey)?;
    let mut validation = Validation::new(header.alg);
    validation.leeway = PROVIDER_LEEWAY.as_secs();
    validation.validate_nbf = true;
    validation.set_issuer(&[issuer]);
    validation.set_audience(&[client_id]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let claims = decode::<Value>(token, &key, &validation).map_err(|error| refused(error.kind()))?.claims;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(issuer) {
        return Err(Refused::Issuer);
    }
    // One that others take, too, has to be made for us.
    let is_shared = claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
    if (is_shared || claims.get("azp").is_some()) && text("azp") != Some(client_id) {
        return Err(Refused::Audience);
    }
    if text("nonce") != Some(nonce) {
        return Err(Refused::Nonce);
    }
    Ok(claims)
}

fn refused(kind: &ErrorKind) -> Refused {
    match kind {
        ErrorKind::InvalidSignature => Refused::Signature,
        ErrorKind::ExpiredSignature | ErrorKind::ImmatureSignature => Refused::Time,
        ErrorKind::InvalidIssuer => Refused::Issuer,
        ErrorKind::InvalidAudience => Refused::Audience,
        ErrorKind::InvalidAlgorithm => Refused::Algorithm,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => Refused::Claims,
        _ => Refused::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
    use rcgen::KeyPair;
    use serde_json::json;

    use super::*;

    const EXPECTED: Expected<'_> = Expected { issuer: "https://login.example", client_id: "waybill", nonce: "n-1" };

    /// A provider with one key.
    struct Signer {
        key: EncodingKey,
        /// The public key as its bytes.
        public: Vec<u8>,
    }

    impl Signer {
        fn new() -> Self {
            let pair = KeyPair::generate().unwrap();
            Self { key: EncodingKey::from_ec_der(&pair.serialize_der()), public: pair.public_key_raw().to_vec() }
        }

        fn jwk(&self, id: Option<&str>) -> Value {
            let mut key = serde_json::to_value(Jwk::from_encoding_key(&self.key, Algorithm::ES256).unwrap()).unwrap();
            if let Some(id) = id {
                key["kid"] = json!(id);
            }
            key
        }

        fn keys(&self, id: Option<&str>) -> Keys {
            of(vec![self.jwk(id)])
        }

        fn sign(&self, id: Option<&str>, claims: &Value) -> String {
            let header = Header { kid: id.map(str::to_owned), ..Header::new(Algorithm::ES256) };
            encode(&header, claims, &self.key).unwrap()
        }
    }

    fn of(keys: Vec<Value>) -> Keys {
        Keys::of(serde_json::from_value(json!({ "keys": keys })).unwrap())
    }

    /// Good claims with others in the place of some.
    fn claims(other: &Value) -> Value {
        let now = get_current_timestamp();
        let mut claims = json!({
            "iss": "https://login.example", "aud": "waybill", "sub": "7", "nonce": "n-1", "iat": now, "exp": now + 300,
        });
        for (name, value) in other.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    #[test]
    fn a_token_of_the_provider_for_this_sign_in_counts() {
        let signer = Signer::new();
        for more in [json!({}), json!({ "azp": "waybill" }), json!({ "aud": ["other", "waybill"], "azp": "waybill" })] {
            let found = verify(&signer.sign(Some("k"), &claims(&more)), &signer.keys(Some("k")), EXPECTED);
            assert_eq!(found.unwrap()["sub"], "7", "{more}");
        }
        // A clock that is a little ahead or behind.
        let skewed = json!({ "exp": get_current_timestamp() - PROVIDER_LEEWAY.as_secs() / 2 });
        assert!(verify(&signer.sign(None, &claims(&skewed)), &signer.keys(Some("k")), EXPECTED).is_ok());
    }

    #[test]
    fn a_token_for_something_else_does_not_count() {
        let signer = Signer::new();
        let now = get_current_timestamp();
        for (other, why) in [
            (json!({ "iss": "https://evil.example" }), Refused::Issuer),
            (json!({ "iss": ["https://login.example"] }), Refused::Issuer),
            (json!({ "iss": "https://login.example/" }), Refused::Issuer),
            (json!({ "aud": "other" }), Refused::Audience),
            (json!({ "aud": [] }), Refused::Audience),
            (json!({ "aud": ["waybill", "other"] }), Refused::Audience),
            (json!({ "azp": "other" }), Refused::Audience),
            (json!({ "azp": 7 }), Refused::Audience),
            (json!({ "aud": ["waybill", "other"], "azp": "other" }), Refused::Audience),
            (json!({ "exp": now - 2 * PROVIDER_LEEWAY.as_secs() }), Refused::Time),
            (json!({ "nbf": now + 2 * PROVIDER_LEEWAY.as_secs() }), Refused::Time),
            (json!({ "exp": null }), Refused::Claims),
            (json!({ "exp": "tomorrow" }), Refused::Claims),
            (json!({ "sub": null }), Refused::Claims),
            (json!({ "aud": null }), Refused::Claims),
            (json!({ "nonce": "n-2" }), Refused::Nonce),
            (json!({ "nonce": null }), Refused::Nonce),
        ] {
            let found = verify(&signer.sign(Some("k"), &claims(&other)), &signer.keys(Some("k")), EXPECTED);
            assert_eq!(found, Err(why), "{other}");
        }
    }

    #[test]
    fn a_token_that_the_provider_did_not_sign_does_not_count() {
        let (signer, other) = (Signer::new(), Signer::new());
        let keys = signer.keys(Some("k"));
        let good = claims(&json!({}));
        assert_eq!(verify(&signer.sign(Some("newer"), &good), &keys, EXPECTED), Err(Refused::UnknownKey));
        assert_eq!(verify(&other.sign(Some("k"), &good), &keys, EXPECTED), Err(Refused::Signature));

        let part = |text: &Value| URL_SAFE_NO_PAD.encode(text.to_string());
        for none in ["none", "None", "NONE", ""] {
            let unsigned = format!("{}.{}.", part(&json!({ "alg": none, "kid": "k" })), part(&good));
            assert_eq!(verify(&unsigned, &keys, EXPECTED), Err(Refused::Algorithm), "{none}");
        }
        // Signed with the public key as if it were a secret, which everybody can.
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let header = Header { kid: Some("k".to_owned()), ..Header::new(algorithm) };
            let forged = encode(&header, &good, &EncodingKey::from_secret(&signer.public)).unwrap();
            assert_eq!(verify(&forged, &keys, EXPECTED), Err(Refused::Algorithm), "{algorithm:?}");
        }
        // Claims in the place of those that were signed.
        let signed = signer.sign(Some("k"), &good);
        let parts: Vec<&str> = signed.split('.').collect();
        let changed = format!("{}.{}.{}", parts[0], part(&claims(&json!({ "sub": "8" }))), parts[2]);
        assert_eq!(verify(&changed, &keys, EXPECTED), Err(Refused::Signature));
        for unreadable in ["", "a", "a.b", "a.b.c", &format!("{signed}.x")] {
            assert_eq!(verify(unreadable, &keys, EXPECTED), Err(Refused::Unreadable), "{unreadable}");
        }
    }

    #[test]
    fn of_a_set_of_keys_those_that_sign_count() {
        let signer = Signer::new();
        let token = signer.sign(None, &claims(&json!({})));
        let with = |field: &str, value: &str| {
            let mut key = signer.jwk(Some("k"));
            key[field] = json!(value);
            key
        };
        let odd = [json!({ "kty": "new" }), json!(7), json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "k" })];
        let mut all = odd.to_vec();
        all.push(signer.jwk(Some("k")));
        assert!(verify(&token, &of(all.clone()), EXPECTED).is_ok(), "the only one that fits");
        all.push(Signer::new().jwk(Some("other")));
        assert_eq!(verify(&token, &of(all), EXPECTED), Err(Refused::UnknownKey), "it names none of the two");
        for unfit in [with("use", "enc"), with("alg", "ES384"), with("crv", "P-384")] {
            assert_eq!(verify(&token, &of(vec![unfit.clone()]), EXPECTED), Err(Refused::UnknownKey), "{unfit}");
        }
        assert!(verify(&token, &of(vec![with("use", "sig")]), EXPECTED).is_ok());
    }
}
