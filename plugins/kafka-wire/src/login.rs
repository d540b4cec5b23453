//! Who we are: a user and its password, from granted secrets, and how the server is told.

use std::cell::Cell;

use serde::Deserialize;
use waybill_plugin::secret;
use waybill_plugin::transport::PluginError;

/// Code of credentials that can't be used.
const CODE: &str = "KAFKA.CREDENTIALS";

/// How a server is told who we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Sasl {
    /// The strongest one that the server has; the password in plain text only in TLS.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// The password as it is.
    #[serde(rename = "plain")]
    Plain,
    /// Proof of the password (RFC 7677).
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// The same with a longer hash.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

impl Sasl {
    /// Its registered name; `auto` begins with the strongest.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::Auto | Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// What all connections of an instance have in common.
pub struct Identity {
    /// Name that servers show for this client.
    pub client: String,
    /// Credentials; none where the servers want none.
    pub login: Option<Login>,
    /// What `auto` came to: servers of one cluster have the same ways.
    pub(crate) settled: Cell<Option<Sasl>>,
}

/// Credentials.
pub struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
    /// As the operator set it.
    pub(crate) sasl: Sasl,
}

impl Identity {
    /// By the secrets that are granted, for the endpoint of this name.
    ///
    /// # Errors
    /// One of them can't be used.
    pub fn read(endpoint: &str, sasl: Sasl) -> Result<Self, PluginError> {
        let login = Login::of(text("user")?, text("password")?, sasl)?;
        Ok(Self { client: format!("waybill-{endpoint}"), login, settled: Cell::new(None) })
    }
}

impl Login {
    fn of(user: Option<String>, password: Option<String>, sasl: Sasl) -> Result<Option<Self>, PluginError> {
        match (user, password) {
            (Some(user), Some(password)) => Ok(Some(Self { user, password, sasl })),
            (None, None) if sasl == Sasl::Auto => Ok(None),
            (None, None) => Err(PluginError::denied(
                CODE,
                "`sasl` is set and no credentials are granted: grant the secrets `user` and `password`",
            )),
            _ => Err(PluginError::denied(
                CODE,
                "one of the secrets `user` and `password` is granted: grant both or none",
            )),
        }
    }
}

/// A secret, without the line's end that a file has.
fn text(name: &str) -> Result<Option<String>, PluginError> {
    let text = secret::text(name, CODE)?;
    Ok(text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn credentials_are_whole_or_not_there() {
        let login = |user: Option<&str>, password: Option<&str>, sasl| {
            Login::of(user.map(str::to_owned), password.map(str::to_owned), sasl)
        };
        assert!(login(None, None, Sasl::Auto).unwrap().is_none());
        assert_eq!(login(Some("a"), Some("b"), Sasl::Plain).unwrap().unwrap().user, "a");
        for (user, password, sasl) in
            [(Some("a"), None, Sasl::Auto), (None, Some("b"), Sasl::Auto), (None, None, Sasl::Plain)]
        {
            assert_eq!(login(user, password, sasl).err().unwrap().fault.code, CODE);
        }
    }
}
