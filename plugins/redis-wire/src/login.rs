//! Who we are: a user and its password, from granted secrets.

use waybill_plugin::secret;
use waybill_plugin::transport::PluginError;

/// Code of credentials that can't be used.
const CODE: &str = "REDIS.CREDENTIALS";
/// Who one is without a name.
const DEFAULT_USER: &str = "default";

/// Credentials; none where the server wants none.
pub struct Login(Option<Credentials>);

struct Credentials {
    user: Option<String>,
    password: String,
}

impl Login {
    /// By the secrets that are granted.
    ///
    /// # Errors
    /// One of them can't be used.
    pub fn read() -> Result<Self, PluginError> {
        Self::of(text("user")?, text("password")?)
    }

    fn of(user: Option<String>, password: Option<String>) -> Result<Self, PluginError> {
        match (user, password) {
            (user, Some(password)) => Ok(Self(Some(Credentials { user, password }))),
            (Some(_), None) => {
                Err(PluginError::denied(CODE, "the secret `user` is granted and `password` isn't: grant both or none"))
            }
            (None, None) => Ok(Self(None)),
        }
    }

    /// Arguments of `HELLO` that log in; none without credentials.
    pub fn hello(&self) -> Vec<&str> {
        let Some(Credentials { user, password }) = &self.0 else { return Vec::new() };
        vec!["AUTH", user.as_deref().unwrap_or(DEFAULT_USER), password]
    }

    /// The command for servers without `HELLO`; those before version 6 know no users.
    pub fn auth(&self) -> Option<Vec<&str>> {
        let Credentials { user, password } = self.0.as_ref()?;
        Some(["AUTH"].into_iter().chain(user.as_deref()).chain([password.as_str()]).collect())
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

    fn login(user: Option<&str>, password: Option<&str>) -> Result<Login, PluginError> {
        Login::of(user.map(str::to_owned), password.map(str::to_owned))
    }

    #[test]
    fn a_user_needs_a_password_and_a_password_no_user() {
        assert!(login(None, None).unwrap().hello().is_empty());
        assert_eq!(login(None, None).unwrap().auth(), None);
        let default = login(None, Some("s3cret")).unwrap();
        assert_eq!(default.hello(), ["AUTH", "default", "s3cret"]);
        assert_eq!(default.auth().unwrap(), ["AUTH", "s3cret"]);
        let shop = login(Some("shop"), Some("s3cret")).unwrap();
        assert_eq!(shop.hello(), ["AUTH", "shop", "s3cret"]);
        assert_eq!(shop.auth().unwrap(), shop.hello());
        assert_eq!(login(Some("shop"), None).err().unwrap().fault.code, CODE);
    }
}
