//! URLs that were checked before: messages of one topic go to one URL, and reading it costs more than sending to it.

use std::collections::HashMap;

use http::Uri;
use parking_lot::Mutex;
use url::Url;
use waybill_bindings::api::net_types::NetError;

use super::failure::net_error;
use crate::grants::Target;

/// Longest URL, in bytes: above what common servers take.
const URL_BYTES_MAX: usize = 16 * 1024;
/// Longest URL that is remembered, in bytes, and how many are: 2 MiB at most.
const REMEMBERED_BYTES_MAX: usize = 1024;
const REMEMBERED_MAX: usize = 1024;

/// A checked URL: whom it leads to, and what is asked of them. Nothing here says that the peer may be reached: the policy
/// judges it each time.
pub(super) type Destination = (Target, Uri);

/// Checked URLs of one endpoint.
#[derive(Debug, Default)]
pub(super) struct KnownUrls(Mutex<HashMap<Box<str>, Destination>>);

impl KnownUrls {
    /// Whom a URL leads to.
    pub(super) fn destination(&self, url: &str) -> Result<Destination, NetError> {
        if let Some(known) = self.0.lock().get(url) {
            return Ok(known.clone());
        }
        let destination = read(url)?;
        if url.len() <= REMEMBERED_BYTES_MAX {
            let mut known = self.0.lock();
            if known.len() >= REMEMBERED_MAX {
                // Rare, and cheaper than knowing which was used last.
                known.clear();
            }
            known.insert(url.into(), destination.clone());
        }
        Ok(destination)
    }
}

fn read(url: &str) -> Result<Destination, NetError> {
    if url.len() > URL_BYTES_MAX {
        return Err(NetError::Limit(format!("the URL has {} bytes, at most {URL_BYTES_MAX} are taken", url.len())));
    }
    let mut url = Url::parse(url).map_err(|error| NetError::Unsupported(format!("URL: {error}")))?;
    let target = Target::from_url(&url).map_err(net_error)?;
    url.set_fragment(None);
    let uri: Uri = url.as_str().parse().map_err(|error| NetError::Unsupported(format!("URL: {error}")))?;
    Ok((target, uri))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_remembered_is_what_was_read_and_stays_bounded() {
        let known = KnownUrls::default();
        for number in 0..REMEMBERED_MAX + 10 {
            let url = format!("http://0x7f.1:8080/{number}#f");
            let first = known.destination(&url).unwrap();
            assert_eq!(
                (first.0.to_string(), first.1.path()),
                ("http://127.0.0.1:8080".to_owned(), &*format!("/{number}"))
            );
            assert_eq!(known.destination(&url).unwrap(), first);
        }
        assert!(known.0.lock().len() <= REMEMBERED_MAX);
        assert!(known.destination("ftp://a").is_err() && known.destination("ftp://a").is_err());
        let long = format!("http://a/{}", "x".repeat(REMEMBERED_BYTES_MAX));
        known.0.lock().clear();
        assert!(known.destination(&long).is_ok() && known.0.lock().is_empty());
    }
}
