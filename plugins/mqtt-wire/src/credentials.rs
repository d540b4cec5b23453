//! Who we are: a user and its password, from granted secrets.

use waybill_plugin::secret;
use waybill_plugin::transport::PluginError;

use crate::Version;

/// Code of credentials that can't be used.
const CODE: &str = "MQTT.CREDENTIALS";

/// A user and a password; neither where the server wants none, or goes by the client's certificate.
#[derive(Default)]
pub struct Credentials {
    user: Option<String>,
    password: Option<String>,
}

impl Credentials {
    /// By the secrets that are granted.
    ///
    /// # Errors
    /// One of them can't be used.
    pub fn read() -> Result<Self, PluginError> {
        Self::of(text("user")?, text("password")?)
    }

    fn of(user: Option<String>, password: Option<String>) -> Result<Self, PluginError> {
        let is_long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > usize::from(u16::MAX));
        if is_long(&user) || is_long(&password) {
            return Err(PluginError::denied(CODE, "the secret `user` or `password` is longer than 65535 bytes"));
        }
        Ok(Self { user, password })
    }

    /// User and password as this version takes them.
    ///
    /// # Errors
    /// 3.1.1 has no password without a user.
    pub fn of_version(&self, version: Version) -> Result<(Option<&str>, Option<&str>), PluginError> {
        match (version, &self.user, &self.password) {
            (Version::V311, None, Some(_)) => Err(PluginError::denied(
                CODE,
                "the secret `password` is granted and `user` isn't: MQTT 3.1.1 takes a password with a user only",
            )),
            (_, user, password) => Ok((user.as_deref(), password.as_deref())),
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

    fn of(user: Option<&str>, password: Option<&str>) -> Credentials {
        Credentials::of(user.map(str::to_owned), password.map(str::to_owned)).unwrap()
    }

    #[test]
    fn only_the_newer_version_takes_a_password_alone() {
        let alone = of(None, Some("s3cret"));
        assert_eq!(alone.of_version(Version::V5).unwrap(), (None, Some("s3cret")));
        let error = alone.of_version(Version::V311).unwrap_err();
        assert!(error.fault.code == CODE && !error.fault.reason.contains("s3cret"));
        assert_eq!(of(Some("shop"), None).of_version(Version::V311).unwrap(), (Some("shop"), None));
        assert!(Credentials::of(Some("u".repeat(65_536)), None).is_err());
    }
}
