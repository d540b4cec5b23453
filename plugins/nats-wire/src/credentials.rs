//! Who we are: credentials from granted secrets, and what of them goes into CONNECT. Nothing here is ever shown.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use ed25519_dalek::{Signer as _, SigningKey};
use serde::{Deserialize, Serialize};
use waybill_plugin::secret;
use waybill_plugin::transport::PluginError;

/// Code of everything that is wrong with credentials before a server sees them.
const CODE: &str = "NATS.CREDENTIALS";

/// Names of the secrets.
pub(crate) const USER: &str = "user";
const PASSWORD: &str = "password";
const TOKEN: &str = "token";
const NKEY_SEED: &str = "nkey_seed";
const CREDS: &str = "creds";

/// Which credentials are used: the key `auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// The kind of credentials for which secrets are granted.
    Auto,
    /// None, whatever is granted.
    None,
    /// The secret `token`.
    Token,
    /// The secrets `user` and `password`.
    Password,
    /// The secret `nkey_seed`.
    Nkey,
    /// The secret `creds`.
    Creds,
}

/// What a connection authenticates with.
pub(crate) enum Credentials {
    None,
    Token(String),
    Password {
        user: String,
        password: String,
    },
    Nkey(Key),
    /// A user's JWT and the key that it is for.
    Jwt {
        jwt: String,
        key: Key,
    },
}

/// What of them goes into CONNECT.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Login {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nkey: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jwt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sig: Option<String>,
}

impl Credentials {
    /// Reads the granted secrets that the configuration wants.
    ///
    /// # Errors
    /// `denied`: one that is wanted isn't granted, or its value isn't one.
    pub(crate) fn read(auth: Auth) -> Result<Self, PluginError> {
        let get = |name: &str| secret::text(name, CODE);
        let wanted = |name: &str| {
            get(name)?.ok_or_else(|| {
                denied(&format!("`auth` asks for the secret `{name}`, which is not granted: add it to `secrets`"))
            })
        };
        match auth {
            Auth::None => Ok(Self::None),
            Auth::Token => wanted(TOKEN).map(Self::Token),
            Auth::Password => Ok(Self::Password { user: wanted(USER)?, password: wanted(PASSWORD)? }),
            Auth::Nkey => Key::from_seed(&wanted(NKEY_SEED)?).map(Self::Nkey).map_err(|why| denied(&why)),
            Auth::Creds => Self::from_file(&wanted(CREDS)?),
            Auth::Auto => {
                if let Some(file) = get(CREDS)? {
                    Self::from_file(&file)
                } else if let Some(seed) = get(NKEY_SEED)? {
                    Key::from_seed(&seed).map(Self::Nkey).map_err(|why| denied(&why))
                } else if let Some(token) = get(TOKEN)? {
                    Ok(Self::Token(token))
                } else if let Some(user) = get(USER)? {
                    Ok(Self::Password { user, password: wanted(PASSWORD)? })
                } else {
                    Ok(Self::None)
                }
            }
        }
    }

    /// Reads a `.creds` file.
    fn from_file(file: &str) -> Result<Self, PluginError> {
        let part = |name: &str| {
            section(file, name).ok_or_else(|| denied(&format!("the secret `creds` holds no section `{name}`")))
        };
        let key = Key::from_seed(part("USER NKEY SEED")?).map_err(|why| denied(&why))?;
        Ok(Self::Jwt { jwt: part("NATS USER JWT")?.to_owned(), key })
    }

    /// What goes into CONNECT, for this server's nonce.
    ///
    /// # Errors
    /// A key has nothing to sign: the server doesn't ask for one.
    pub(crate) fn login(&self, nonce: Option<&str>) -> Result<Login, PluginError> {
        let sign = |key: &Key| {
            let nonce = nonce.ok_or_else(|| {
                denied("a key is granted and the server doesn't ask for one: it has no users with NKeys or JWT")
            })?;
            Ok::<_, PluginError>(Some(key.sign(nonce.as_bytes())))
        };
        Ok(match self {
            Self::None => Login::default(),
            Self::Token(token) => Login { auth_token: Some(token.clone()), ..Login::default() },
            Self::Password { user, password } => {
                Login { user: Some(user.clone()), pass: Some(password.clone()), ..Login::default() }
            }
            Self::Nkey(key) => Login { nkey: Some(key.public()), sig: sign(key)?, ..Login::default() },
            Self::Jwt { jwt, key } => {
                Login { jwt: Some(jwt.clone()), nkey: Some(key.public()), sig: sign(key)?, ..Login::default() }
            }
        })
    }
}

/// A user's Ed25519 key.
pub(crate) struct Key(SigningKey);

/// Prefix bytes of the text forms (nkeys): a seed (`S`) of a user (`U`), and a user's public key.
const SEED: u8 = 18 << 3;
const USER_KIND: u8 = 20 << 3;

impl Key {
    /// Reads a seed `SU...`: Base32 of two prefix bytes, 32 bytes and a checksum.
    fn from_seed(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("the NKey seed {what}: it must be a user's seed, `SU...`");
        let bytes = BASE32_NOPAD.decode(text.trim().as_bytes()).map_err(|_| wrong("is no Base32"))?;
        let Some((body, checksum)) = bytes.split_last_chunk::<2>() else { return Err(wrong("is too short")) };
        if u16::from_le_bytes(*checksum) != crc16(body) {
            return Err(wrong("has a wrong checksum"));
        }
        let Some((&[first, second], seed)) = body.split_first_chunk::<2>() else { return Err(wrong("is too short")) };
        if first & 0xf8 != SEED || (first & 0x07) << 5 | (second & 0xf8) >> 3 != USER_KIND {
            return Err(wrong("is of another kind"));
        }
        let seed = <&[u8; 32]>::try_from(seed).map_err(|_| wrong("has a wrong length"))?;
        Ok(Self(SigningKey::from_bytes(seed)))
    }

    fn public(&self) -> String {
        let mut bytes = vec![USER_KIND];
        bytes.extend_from_slice(self.0.verifying_key().as_bytes());
        bytes.extend_from_slice(&crc16(&bytes).to_le_bytes());
        BASE32_NOPAD.encode(&bytes)
    }

    fn sign(&self, nonce: &[u8]) -> String {
        BASE64URL_NOPAD.encode(&self.0.sign(nonce).to_bytes())
    }
}

/// CRC-16/XMODEM, the checksum of nkeys.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

/// The line between `-----BEGIN name-----` and its end.
fn section<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = file.lines().map(str::trim);
    lines.find(|line| line.starts_with("---") && line.contains("BEGIN") && line.contains(name))?;
    lines.find(|line| !line.is_empty()).filter(|line| !line.starts_with("---"))
}

fn denied(reason: &str) -> PluginError {
    PluginError::denied(CODE, reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// From the documentation of NATS: a user's seed and its public key.
    const SEED_TEXT: &str = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU";
    const PUBLIC_TEXT: &str = "UCK5N7N66OBOINFXAYC2ACJQYFSOD4VYNU6APEJTAVFZB2SVHLKGEW7L";

    fn seed_of(bytes: [u8; 32]) -> String {
        let mut body = vec![SEED | USER_KIND >> 5, (USER_KIND & 31) << 3];
        body.extend(bytes);
        body.extend(crc16(&body).to_le_bytes());
        BASE32_NOPAD.encode(&body)
    }

    #[test]
    fn the_checksum_is_xmodem() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn a_seed_gives_its_public_key_and_a_signature_that_holds() {
        let key = Key::from_seed(&seed_of([7; 32])).unwrap();
        assert!(seed_of([7; 32]).starts_with("SU") && key.public().starts_with('U'));
        let signature = BASE64URL_NOPAD.decode(key.sign(b"nonce").as_bytes()).unwrap();
        let signature = ed25519_dalek::Signature::from_slice(&signature).unwrap();
        assert!(key.0.verifying_key().verify_strict(b"nonce", &signature).is_ok());
    }

    #[test]
    fn seeds_that_others_made_are_read() {
        let key = Key::from_seed(SEED_TEXT).unwrap();
        assert_eq!(key.public(), PUBLIC_TEXT);
    }

    #[test]
    fn what_is_no_users_seed_is_refused_without_being_shown() {
        let mut wrong = seed_of([7; 32]).into_bytes();
        if let Some(letter) = wrong.get_mut(20) {
            *letter = if *letter == b'A' { b'B' } else { b'A' };
        }
        for text in ["", "SU", "hello", PUBLIC_TEXT, std::str::from_utf8(&wrong).unwrap()] {
            let why = Key::from_seed(text).err().unwrap();
            assert!(text.is_empty() || !why.contains(text) || text == "SU", "{why}");
        }
    }

    #[test]
    fn a_creds_file_holds_a_token_and_its_key() {
        let file = format!(
            "-----BEGIN NATS USER JWT-----\neyJ.abc.def\n------END NATS USER JWT------\n\n\
             ************************* IMPORTANT *************************\n\n\
             -----BEGIN USER NKEY SEED-----\r\n{}\r\n------END USER NKEY SEED------\n",
            seed_of([9; 32])
        );
        let login = Credentials::from_file(&file).unwrap().login(Some("n")).unwrap();
        assert_eq!(login.jwt.as_deref(), Some("eyJ.abc.def"));
        assert!(login.sig.is_some());
        for file in ["", "-----BEGIN NATS USER JWT-----\n------END NATS USER JWT------\n"] {
            assert_eq!(Credentials::from_file(file).err().unwrap().fault.code, CODE);
        }
    }

    #[test]
    fn only_what_is_used_goes_into_connect() {
        let login = Credentials::Token("t".to_owned()).login(None).unwrap();
        assert_eq!(serde_json::to_string(&login).unwrap(), r#"{"auth_token":"t"}"#);
        assert_eq!(serde_json::to_string(&Credentials::None.login(None).unwrap()).unwrap(), "{}");
        let key = Key::from_seed(&seed_of([1; 32])).unwrap();
        assert!(Credentials::Nkey(key).login(None).is_err());
    }
}
