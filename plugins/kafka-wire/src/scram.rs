//! SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password, and none says it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha512};

/// Fewest rounds: with less a stolen exchange tells the password too soon (RFC 7677, section 4).
const ROUNDS_MIN: u32 = 4_096;
/// Most rounds that a server may ask for: more would stop the instance for a while.
const ROUNDS_MAX: u32 = 200_000;

/// The hash that both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

/// A conversation, from our first message on.
pub(crate) struct Scram<'a> {
    hash: Hash,
    password: &'a str,
    nonce: String,
    /// Our first message without its head.
    first: String,
    /// What the server has to prove at the end.
    expected: Vec<u8>,
}

impl<'a> Scram<'a> {
    /// `nonce`: what nobody can guess, without a comma.
    pub(crate) fn new(hash: Hash, user: &str, password: &'a str, nonce: &str) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self { hash, password, nonce: nonce.to_owned(), first: format!("n={user},r={nonce}"), expected: Vec::new() }
    }

    /// What is said first.
    pub(crate) fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.first).into_bytes()
    }

    /// What is said to the server's challenge.
    ///
    /// # Errors
    /// The challenge isn't one, or not to us.
    pub(crate) fn answer(&mut self, challenge: &[u8]) -> Result<Vec<u8>, &'static str> {
        let challenge = std::str::from_utf8(challenge).map_err(|_| "its challenge is no text")?;
        let nonce = attribute(challenge, 'r').ok_or("its challenge has no nonce")?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("its challenge is for somebody else");
        }
        let salt = attribute(challenge, 's').and_then(|salt| BASE64.decode(salt).ok()).ok_or("it gives no salt")?;
        let rounds = attribute(challenge, 'i').and_then(|rounds| rounds.parse().ok()).ok_or("it gives no rounds")?;
        if !(ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds) {
            return Err("it asks for too few rounds, or too many");
        }
        // `biws` is our head, `n,,`, in Base64.
        let last = format!("c=biws,r={nonce}");
        let all = format!("{},{challenge},{last}", self.first);
        let (proof, expected) = match self.hash {
            Hash::Sha256 => prove::<Hmac<Sha256>, Sha256>(self.password, &salt, rounds, &all),
            Hash::Sha512 => prove::<Hmac<Sha512>, Sha512>(self.password, &salt, rounds, &all),
        };
        self.expected = expected;
        Ok(format!("{last},p={}", BASE64.encode(proof)).into_bytes())
    }

    /// Whether the server knows the password, too.
    pub(crate) fn is_proven(&self, last: &[u8]) -> bool {
        let proof = std::str::from_utf8(last).ok().and_then(|last| attribute(last, 'v'));
        let proof = proof.and_then(|proof| BASE64.decode(proof).ok());
        !self.expected.is_empty() && proof.is_some_and(|proof| proof == self.expected)
    }
}

fn attribute(message: &str, name: char) -> Option<&str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// Our proof, and the server's as it has to be.
fn prove<M: Mac + KeyInit, D: Digest>(password: &str, salt: &[u8], rounds: u32, all: &str) -> (Vec<u8>, Vec<u8>) {
    let salted = salted::<M>(password.as_bytes(), salt, rounds);
    let client_key = keyed::<M>(&salted, &[b"Client Key"]);
    let mut proof = keyed::<M>(&D::digest(&client_key), &[all.as_bytes()]);
    for (byte, key) in proof.iter_mut().zip(&client_key) {
        *byte ^= key;
    }
    (proof, keyed::<M>(&keyed::<M>(&salted, &[b"Server Key"]), &[all.as_bytes()]))
}

/// `Hi` of RFC 5802: one block of PBKDF2.
fn salted<M: Mac + KeyInit>(password: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
    let mut last = keyed::<M>(password, &[salt, &1_u32.to_be_bytes()]);
    let mut sum = last.clone();
    for _ in 1..rounds {
        last = keyed::<M>(password, &[&last]);
        for (byte, more) in sum.iter_mut().zip(&last) {
            *byte ^= more;
        }
    }
    sum
}

fn keyed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    // HMAC takes keys of every length.
    let Ok(mut mac) = <M as Mac>::new_from_slice(key) else { return Vec::new() };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard_is_proven() {
        let mut scram = Scram::new(Hash::Sha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(scram.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(String::from_utf8(scram.answer(challenge).unwrap()).unwrap(), expected);
        assert!(scram.is_proven(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!scram.is_proven(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="));
        assert!(!scram.is_proven(b"e=other-error"));
    }

    #[test]
    fn a_challenge_has_to_be_ours() {
        let challenges = [
            "",
            "r=other,s=YQ==,i=4096",
            "r=abc,s=YQ==,i=4096",
            "r=abcd,s=YQ==,i=4095",
            "r=abcd,s=YQ==,i=9999999",
            "r=abcd,i=4096",
        ];
        for challenge in challenges {
            assert!(Scram::new(Hash::Sha512, "u", "p", "abc").answer(challenge.as_bytes()).is_err(), "{challenge}");
        }
        assert_eq!(Scram::new(Hash::Sha512, "a=b,c", "p", "x").first(), b"n,,n=a=3Db=2Cc,r=x");
    }
}
