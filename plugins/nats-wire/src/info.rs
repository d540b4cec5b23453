//! What a server says of itself: `INFO`, at the start of a connection and whenever it changes.

use serde::Deserialize;

/// Where the server says nothing.
const MAX_PAYLOAD_DEFAULT: usize = 1024 * 1024;

/// The parts of `INFO` that matter here. Everything may be missing: servers leave out what is false.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Info {
    /// Version of the server.
    pub version: String,
    /// Most bytes of headers and payload of one message.
    pub max_payload: usize,
    /// Whether messages may have headers.
    pub headers: bool,
    /// Whether TLS has to follow.
    pub tls_required: bool,
    /// Whether TLS may follow.
    pub tls_available: bool,
    /// What a key has to sign.
    pub nonce: Option<String>,
    /// Name of the cluster that it is in.
    pub cluster: Option<String>,
    /// Addresses of the cluster.
    pub connect_urls: Vec<String>,
    /// The server is about to shut down: go elsewhere.
    pub ldm: bool,
}

impl Default for Info {
    fn default() -> Self {
        Self {
            version: String::new(),
            max_payload: MAX_PAYLOAD_DEFAULT,
            headers: false,
            tls_required: false,
            tls_available: false,
            nonce: None,
            cluster: None,
            connect_urls: Vec::new(),
            ldm: false,
        }
    }
}

impl Info {
    /// Reads it; none if it isn't one.
    pub fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_a_server_leaves_out_has_a_default_and_what_is_new_is_ignored() {
        let info =
            Info::parse(br#"{"server_id":"N","version":"2.9.10","headers":true,"max_payload":65536,"xkey":"X"}"#)
                .unwrap();
        assert_eq!((info.version.as_str(), info.max_payload, info.headers, info.ldm), ("2.9.10", 65_536, true, false));
        assert_eq!(Info::parse(b"{}").unwrap().max_payload, MAX_PAYLOAD_DEFAULT);
        assert!(Info::parse(br#"{"cluster":"q"}"#).unwrap().cluster.is_some() && info.cluster.is_none());
        assert!(Info::parse(b"[]x").is_none());
        assert!(Info::parse(br#"{"max_payload":-1}"#).is_none());
    }
}
