//! The page's cookies: for this host alone, and no script's business.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Response, header};

use crate::tls::Encryption;

/// A cookie by its two names.
#[derive(Clone, Copy)]
pub(crate) struct Cookie {
    /// Where it goes over TLS: browsers take one of this prefix from this host alone, for all of it, and never in clear text.
    secure: &'static str,
    /// On loopback, where there is no TLS.
    local: &'static str,
}

/// Of a session. It lasts as long as the browser is open; the host ends the session.
pub(crate) const SESSION: Cookie = Cookie { secure: "__Host-waybill", local: "waybill" };
/// Of a sign-in at a provider, which leads back from another site.
pub(crate) const SIGN_IN: Cookie = Cookie { secure: "__Host-waybill-sign-in", local: "waybill-sign-in" };

impl Cookie {
    /// Its value in a request.
    pub(crate) fn of<'h>(self, headers: &'h HeaderMap, encryption: &Encryption) -> Option<&'h str> {
        let name = self.name(encryption);
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(of, _)| *of == name).map(|(_, value)| value)
    }

    /// Has a browser take it, until it is closed or for so long.
    pub(crate) fn set<B>(
        self,
        response: &mut Response<B>,
        value: &str,
        lasts: Option<Duration>,
        encryption: &Encryption,
    ) {
        let age = lasts.map(|lasts| format!("; Max-Age={}", lasts.as_secs())).unwrap_or_default();
        let secure = if is_encrypted(encryption) { "; Secure" } else { "" };
        let text = format!("{}={value}; Path=/; HttpOnly{secure}; SameSite=Lax{age}", self.name(encryption));
        if let Ok(text) = HeaderValue::from_str(&text) {
            response.headers_mut().append(header::SET_COOKIE, text);
        }
    }

    /// Has a browser forget it.
    pub(crate) fn forget<B>(self, response: &mut Response<B>, encryption: &Encryption) {
        self.set(response, "", Some(Duration::ZERO), encryption);
    }

    fn name(self, encryption: &Encryption) -> &'static str {
        if is_encrypted(encryption) { self.secure } else { self.local }
    }
}

/// Whether what goes between the browser and this host is encrypted.
pub(crate) fn is_encrypted(encryption: &Encryption) -> bool {
    matches!(encryption, Encryption::Tls(_) | Encryption::Proxy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_for_this_host_alone() {
        let mut response = Response::new(());
        SESSION.set(&mut response, "x", None, &Encryption::Proxy);
        SESSION.forget(&mut response, &Encryption::None);
        SIGN_IN.set(&mut response, "y", Some(Duration::from_secs(600)), &Encryption::Proxy);
        let set: Vec<_> = response.headers().get_all(header::SET_COOKIE).iter().collect();
        assert_eq!(
            set,
            [
                "__Host-waybill=x; Path=/; HttpOnly; Secure; SameSite=Lax",
                "waybill=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0",
                "__Host-waybill-sign-in=y; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=600",
            ]
        );
    }

    #[test]
    fn one_that_went_in_clear_text_does_not_count_over_tls() {
        let headers =
            HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static("other=1; waybill=x; waybill-sign-in=y"))]);
        assert_eq!(SESSION.of(&headers, &Encryption::None), Some("x"));
        assert_eq!(SIGN_IN.of(&headers, &Encryption::None), Some("y"));
        assert_eq!(SESSION.of(&headers, &Encryption::Proxy), None);
    }
}
