//! Secrets as a plugin wants them: granted or not, as text.

use crate::host::secrets::{self, SecretError};
use crate::transport::PluginError;

/// A granted secret's bytes; none if it isn't granted.
///
/// # Errors
/// It is granted and has no value (`denied`), or can't be read now (`unavailable`). `code` is the plugin's own.
pub fn bytes(name: &str, code: &str) -> Result<Option<Vec<u8>>, PluginError> {
    match secrets::get(name) {
        Ok(secret) => Ok(Some(secret.value)),
        Err(SecretError::Denied) => Ok(None),
        Err(SecretError::NotFound) => {
            Err(PluginError::denied(code, format!("the secret `{name}` is granted but has no value: set it")))
        }
        Err(SecretError::Unavailable) => {
            Err(PluginError::unavailable(code, format!("the secret `{name}` can't be read now")))
        }
    }
}

/// A granted secret as text; none if it isn't granted.
///
/// # Errors
/// As [`bytes`], and `denied` if it isn't UTF-8.
pub fn text(name: &str, code: &str) -> Result<Option<String>, PluginError> {
    let Some(bytes) = bytes(name, code)? else { return Ok(None) };
    // The error would show the bytes.
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| PluginError::denied(code, format!("the secret `{name}` is no UTF-8 text: set another value")))
}
