//! The keys of the configuration that every client of NATS has, beside those of every broker.

use waybill_plugin::broker::{self, Scheme};
use waybill_plugin::transport::PluginError;

use crate::credentials::Auth;
use crate::subject;

/// How addresses of servers are written.
pub const SCHEME: Scheme = Scheme { plain: "nats", tls: "tls", port: 4222, tls_port: 4222 };
/// First tokens of the subjects that answers come to, where the operator names none.
pub const INBOX_PREFIX: &str = "_INBOX";

/// Keys from which a connection can be made.
pub trait ClientKeys: broker::Keys + 'static {
    /// The part of them that a connection needs.
    fn client(&self) -> Client<'_>;
}

/// What a connection needs of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Which credentials are used.
    pub auth: Auth,
    /// Whether servers that a server tells about are tried as well.
    pub discover: bool,
    /// First tokens of the subjects that answers come to.
    pub inbox_prefix: &'a str,
    /// Longest time for the answer to a ping, in milliseconds.
    pub ping_timeout: u32,
}

/// Checks the key `inbox_prefix`.
///
/// # Errors
/// Nobody can publish there.
pub fn check_inbox_prefix(prefix: &str) -> Result<(), PluginError> {
    if prefix == INBOX_PREFIX || prefix.strip_prefix(INBOX_PREFIX).is_some_and(|rest| rest.starts_with('.')) {
        return Ok(());
    }
    subject::check(prefix).map_err(|why| PluginError::invalid_config("inbox_prefix", why))
}

/// Checks the name of a stream or a consumer at this place of the configuration.
///
/// # Errors
/// JetStream takes no such name.
pub fn check_name(path: &str, name: &str) -> Result<(), PluginError> {
    let wrong = |letter: char| letter.is_whitespace() || letter.is_control() || ".*>/\\".contains(letter);
    if name.is_empty() || name.contains(wrong) {
        return Err(PluginError::invalid_config(path, "is no name: no dots, stars, slashes or spaces"));
    }
    Ok(())
}
