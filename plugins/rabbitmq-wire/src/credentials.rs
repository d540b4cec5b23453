//! Who we are: SASL by granted secrets. Nothing here is ever shown.

use serde::Deserialize;
use waybill_plugin::secret;
use waybill_plugin::transport::PluginError;

use crate::wire::text_entry;

/// Code of everything that is wrong with credentials before a server sees them.
const CODE: &str = "RABBITMQ.CREDENTIALS";

const USER: &str = "user";
const PASSWORD: &str = "password";
/// RabbitMQ's own first user, whom it lets in from its own machine only.
const GUEST: &str = "guest";

/// How we log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// By what is granted.
    Auto,
    /// PLAIN with `user` and `password`.
    Plain,
    /// AMQPLAIN with `user` and `password`.
    Amqplain,
    /// By the client certificate.
    External,
}

/// What a connection authenticates with.
pub enum Credentials {
    /// By a name.
    Password {
        /// Who we are.
        user: String,
        /// How we prove it.
        password: String,
        /// The one mechanism to use; none = what the server offers.
        only: Option<&'static str>,
    },
    /// By the client certificate.
    External,
}

/// A mechanism and what goes with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) mechanism: &'static str,
    pub(crate) response: Vec<u8>,
}

const PLAIN: &str = "PLAIN";
const AMQPLAIN: &str = "AMQPLAIN";
const EXTERNAL: &str = "EXTERNAL";

impl Credentials {
    /// Reads the granted secrets that the configuration wants. `has_certificate`: a client certificate is granted.
    ///
    /// # Errors
    /// `denied`: one that is wanted isn't granted, or its value isn't one.
    pub fn read(auth: Auth, has_certificate: bool) -> Result<Self, PluginError> {
        let only = match auth {
            Auth::Auto => None,
            Auth::Plain => Some(PLAIN),
            Auth::Amqplain => Some(AMQPLAIN),
            Auth::External if has_certificate => return Ok(Self::External),
            Auth::External => return Err(denied("`auth` is external and the secret `tls_cert` is not granted")),
        };
        let Some(user) = secret::text(USER, CODE)? else {
            return match (auth, has_certificate) {
                (Auth::Auto, true) => Ok(Self::External),
                (Auth::Auto, false) => {
                    Ok(Self::Password { user: GUEST.to_owned(), password: GUEST.to_owned(), only: None })
                }
                _ => Err(denied("`auth` asks for the secret `user`, which is not granted: add it to `secrets`")),
            };
        };
        let password = secret::text(PASSWORD, CODE)?
            .ok_or_else(|| denied("the secret `user` is granted and `password` is not: add it to `secrets`"))?;
        Ok(Self::Password { user, password, only })
    }

    /// What to log in with at a server that offers these mechanisms, with spaces between.
    ///
    /// # Errors
    /// It offers none that we can use.
    pub(crate) fn login(&self, offered: &str) -> Result<Response, PluginError> {
        let offers = |mechanism: &str| offered.split_ascii_whitespace().any(|other| other == mechanism);
        let none = |wanted: &str| {
            denied(&format!("the server offers `{}` to log in with and not {wanted}", crate::text::shown(offered)))
        };
        match self {
            Self::External if offers(EXTERNAL) => Ok(Response { mechanism: EXTERNAL, response: Vec::new() }),
            Self::External => {
                Err(none("EXTERNAL: enable rabbitmq_auth_mechanism_ssl there, or grant `user` and `password`"))
            }
            Self::Password { user, password, only } => {
                let mechanisms = [PLAIN, AMQPLAIN].into_iter();
                let usable = |mechanism: &&str| only.is_none_or(|only| only == *mechanism) && offers(mechanism);
                let mechanism =
                    mechanisms.clone().find(usable).ok_or_else(|| none(only.unwrap_or("PLAIN or AMQPLAIN")))?;
                let mut response = Vec::new();
                if mechanism == PLAIN {
                    response.extend_from_slice(format!("\0{user}\0{password}").as_bytes());
                } else {
                    // The entries of a table, without its length.
                    text_entry(&mut response, "LOGIN", user);
                    text_entry(&mut response, "PASSWORD", password);
                }
                Ok(Response { mechanism, response })
            }
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

    fn password(only: Option<&'static str>) -> Credentials {
        Credentials::Password { user: "u".to_owned(), password: "secret-p".to_owned(), only }
    }

    #[test]
    fn the_first_mechanism_that_both_know_is_used() {
        let login = password(None).login("AMQPLAIN PLAIN").unwrap();
        assert_eq!(login, Response { mechanism: "PLAIN", response: b"\0u\0secret-p".to_vec() });
        let login = password(Some("AMQPLAIN")).login("AMQPLAIN PLAIN").unwrap();
        assert_eq!(login.mechanism, "AMQPLAIN");
        assert_eq!(login.response, b"\x05LOGINS\0\0\0\x01u\x08PASSWORDS\0\0\0\x08secret-p");
        assert_eq!(password(None).login("AMQPLAIN").unwrap().mechanism, "AMQPLAIN");
        assert_eq!(Credentials::External.login("PLAIN EXTERNAL").unwrap().mechanism, "EXTERNAL");
    }

    #[test]
    fn what_the_server_does_not_offer_is_told_without_the_password() {
        for (credentials, offered) in [
            (password(None), "EXTERNAL RABBIT-CR-DEMO"),
            (password(Some("PLAIN")), "AMQPLAIN"),
            (Credentials::External, "PLAIN"),
            (password(None), "PLAINER"),
        ] {
            let error = credentials.login(offered).unwrap_err();
            assert_eq!(error.fault.code, CODE);
            assert!(error.fault.reason.contains(offered) && !error.fault.reason.contains("secret-p"));
        }
    }
}
