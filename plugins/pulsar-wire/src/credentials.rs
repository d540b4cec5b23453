//! Who we are: a token or the client certificate. Nothing here is ever shown.

use serde::Deserialize;
use waybill_plugin::secret;
use waybill_plugin::transport::PluginError;

/// Code of credentials that can't be used.
const CODE: &str = "PULSAR.CREDENTIALS";
/// Name of the secret with the token.
const TOKEN: &str = "token";

/// How we log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// By what is granted: the token, else the client certificate, else not at all.
    #[default]
    Auto,
    /// By the secret `token`, a JSON Web Token.
    Token,
    /// By the client certificate.
    Tls,
    /// Not at all.
    None,
}

/// What a connection authenticates with. Its secret is read anew each time, so that a new token counts from the next connection on, or
/// when the broker asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Credentials {
    auth: Auth,
    has_certificate: bool,
}

/// A method's name, and what it shows the broker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) method: &'static str,
    pub(crate) data: Vec<u8>,
}

impl Credentials {
    /// As the configuration wants it. `has_certificate`: a client certificate is granted.
    ///
    /// # Errors
    /// `denied`: what is wanted isn't granted, or has no value.
    pub fn read(auth: Auth, has_certificate: bool) -> Result<Self, PluginError> {
        let credentials = Self { auth, has_certificate };
        credentials.show().map(|_| credentials)
    }

    /// What a broker is shown; none: nothing.
    pub(crate) fn show(self) -> Result<Option<Shown>, PluginError> {
        let token = match self.auth {
            Auth::Auto | Auth::Token => secret::text(TOKEN, CODE)?,
            Auth::Tls | Auth::None => None,
        };
        self.choose(token)
    }

    /// The token as a request over HTTP shows it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn bearer(self) -> Result<Option<String>, PluginError> {
        let token = self.show()?.filter(|shown| shown.method == "token");
        Ok(token.map(|shown| format!("Bearer {}", String::from_utf8_lossy(&shown.data))))
    }

    fn choose(self, token: Option<String>) -> Result<Option<Shown>, PluginError> {
        let by_certificate = || Shown { method: "tls", data: Vec::new() };
        match (self.auth, token) {
            (Auth::Auto | Auth::Token, Some(token)) => {
                // A file has an end of line.
                Ok(Some(Shown { method: "token", data: token.trim().as_bytes().to_vec() }))
            }
            (Auth::Token, None) => {
                Err(denied("`auth` is token and the secret `token` is not granted: add it to `secrets`"))
            }
            (Auth::Tls, _) if !self.has_certificate => {
                Err(denied("`auth` is tls and the secret `tls_cert` is not granted: add it to `secrets`"))
            }
            (Auth::Auto | Auth::Tls, _) if self.has_certificate => Ok(Some(by_certificate())),
            _ => Ok(None),
        }
    }
}

fn denied(reason: &str) -> PluginError {
    PluginError::denied(CODE, reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn method(auth: Auth, has_certificate: bool, token: Option<&str>) -> Result<Option<&'static str>, PluginError> {
        let chosen = Credentials { auth, has_certificate }.choose(token.map(str::to_owned))?;
        Ok(chosen.map(|shown| shown.method))
    }

    #[test]
    fn what_is_granted_is_shown_and_a_token_comes_first() {
        assert_eq!(method(Auth::Auto, true, Some("t")).unwrap(), Some("token"));
        assert_eq!(method(Auth::Auto, true, None).unwrap(), Some("tls"));
        assert_eq!(method(Auth::Auto, false, None).unwrap(), None);
        assert_eq!(method(Auth::Tls, true, None).unwrap(), Some("tls"));
        assert_eq!(method(Auth::None, true, None).unwrap(), None);
        for (auth, certificate) in [(Auth::Token, true), (Auth::Tls, false)] {
            assert_eq!(method(auth, certificate, None).unwrap_err().fault.code, CODE);
        }
    }

    #[test]
    fn the_end_of_a_files_line_is_no_part_of_the_token() {
        let shown = Credentials { auth: Auth::Auto, has_certificate: false }.choose(Some("abc\n".to_owned())).unwrap();
        assert_eq!(shown.unwrap().data, b"abc");
    }
}
