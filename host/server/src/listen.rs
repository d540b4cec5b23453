//! Where the server may listen, and which names it answers to while it asks nobody for a token.
//!
//! A browser on the same machine can reach loopback. Two tricks would let a page of another site use it: a name of that
//! site that resolves to 127.0.0.1 (DNS rebinding), and a plain cross-site POST. The Host, Origin and Sec-Fetch-Site headers,
//! which a page can't forge, give both away. Another program on this machine may serve pages too, on another port: they may
//! not change anything here either. Programs that aren't browsers send none of the latter two.
//!
//! A proxy on the same machine would bring everybody in under such a name. One that is configured needs tokens; of one that isn't,
//! the headers that proxies commonly add are refused.

use std::net::{IpAddr, SocketAddr};

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use waybill_core::code::Code;

use crate::error::ServerError;
use crate::problem::Problem;
use crate::tls::Encryption;

/// Refuses to listen where others reach it while nobody is asked for a token, or beyond loopback nothing that
/// keeps them from reading. A proxy brings others to loopback, too.
pub fn check_listen(address: SocketAddr, asks_for_tokens: bool, encryption: &Encryption) -> Result<(), ServerError> {
    match (is_loopback(address.ip()), asks_for_tokens, encryption) {
        (true, false, Encryption::Proxy) => Err(ServerError::OpenProxy { address }),
        (true, _, _) | (false, true, Encryption::Tls(_) | Encryption::Proxy) => Ok(()),
        (false, false, _) => Err(ServerError::Listen { address }),
        (false, true, Encryption::None) => Err(ServerError::ClearText { address }),
    }
}

/// Whether an address is of this machine alone.
pub fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    }
}

/// Whether a request without a token comes from this machine's own programs, and not from a page of another site.
/// What changes something has to come from a page of this very host, if it comes from a page at all. Pages of the origins in `pages` may
/// ask.
pub fn check_names(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    encryption: &Encryption,
    pages: &[String],
) -> Result<(), Problem> {
    if let Some(header) = headers.keys().find(|name| is_of_proxy(name)) {
        let text = format!(
            "the header {header} says that a proxy sent this on for somebody else: without [[auth.token]] only programs on \
             this machine are served, and who comes through a proxy can't be told from them"
        );
        return Err(Problem::new(Code::AUTH_PROXY, text));
    }
    let host = match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST).and_then(|value| value.to_str().ok()),
    };
    let also = headers.get_all(header::HOST).iter().any(|value| !value.to_str().is_ok_and(is_local_name));
    let host = match host {
        Some(host) if is_local_name(host) && !also => host,
        _ => {
            return Err(Problem::new(
                Code::AUTH_HOST,
                format!(
                    "the Host header is {:?}: without [[auth.token]] this host answers to localhost, 127.0.0.1 and [::1] only",
                    host.unwrap_or("")
                ),
            ));
        }
    };
    if !method.is_safe() {
        return if is_own_page(host, headers, encryption) { Ok(()) } else { Err(of_page("changes something")) };
    }
    if named_page(headers, pages).is_some() {
        return Ok(());
    }
    let foreign = headers.get_all(header::ORIGIN).iter().any(|origin| {
        let name = origin.to_str().ok().and_then(|text| text.split_once("://")).map(|(_, name)| name);
        !name.is_some_and(is_local_name)
    });
    let cross = headers.get_all(SEC_FETCH_SITE).iter().any(|site| site.as_bytes() == b"cross-site");
    if foreign || cross { Err(of_page("asks")) } else { Ok(()) }
}

/// The origin of the page that asks, if the operator named it.
pub(crate) fn named_page<'h>(headers: &'h HeaderMap, pages: &[String]) -> Option<&'h HeaderValue> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().filter(|origin| pages.iter().any(|page| page.as_bytes() == origin.as_bytes()))?;
    origins.next().is_none().then_some(origin)
}

/// Whether proxies write this header into what they send on. Not all of them do, so without it nothing is proved.
fn is_of_proxy(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-")
}

pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

fn of_page(act: &str) -> Problem {
    let text = format!(
        "a page that isn't this host's own {act}: without [[auth.token]] only programs on this machine are served"
    );
    Problem::new(Code::AUTH_ORIGIN, text)
}

/// Whether every word that a browser says of the page agrees that it is this host's own, or that a person typed the address.
/// Without any such word it is no browser.
pub(crate) fn is_own_page(host: &str, headers: &HeaderMap, encryption: &Encryption) -> bool {
    let sites = || headers.get_all(SEC_FETCH_SITE).iter();
    let said_so = sites().next().is_some();
    sites().all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
        && headers.get_all(header::ORIGIN).iter().all(|origin| match origin.as_bytes() {
            // A page that hides where it is from; the browser still says whether that is here.
            b"null" => said_so,
            _ => origin.to_str().is_ok_and(|origin| is_origin_of(origin, host, encryption)),
        })
}

/// Whether an origin is that of the host asked for: the scheme it is served with, its name and its port.
fn is_origin_of(origin: &str, host: &str, encryption: &Encryption) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let served = match encryption {
        // What the proxy is spoken to with isn't seen here.
        Encryption::Proxy => true,
        Encryption::None | Encryption::Tls(_) => scheme == encryption.scheme(),
    };
    let place = |text: &str| {
        let authority: Authority = text.parse().ok()?;
        let name = authority.host().to_ascii_lowercase();
        Some((name, authority.port_u16().unwrap_or(port)))
    };
    served && place(authority).is_some_and(|origin| Some(origin) == place(host))
}

/// `localhost` or a loopback address, with any port. A site can't make its own name one of these.
pub(crate) fn is_local_name(authority: &str) -> bool {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => authority,
    };
    let address: Option<IpAddr> = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse().ok().map(IpAddr::V6),
        None => name.parse().ok().map(IpAddr::V4),
    };
    address.is_some_and(is_loopback) || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_auth_and_encryption_are_needed() {
        for loopback in ["127.0.0.1:7070", "127.8.0.1:1", "[::1]:7070", "[::ffff:127.0.0.1]:80"] {
            let loopback = loopback.parse().unwrap();
            assert!(check_listen(loopback, false, &Encryption::None).is_ok(), "{loopback}");
            assert!(check_listen(loopback, true, &Encryption::Proxy).is_ok(), "{loopback}");
            // Whoever reaches the proxy would be one of this machine's own programs.
            let error = check_listen(loopback, false, &Encryption::Proxy).unwrap_err();
            assert_eq!(error.code().as_str(), "CONFIG.LISTEN");
            for word in ["[auth] required = false", "server.behind_tls_proxy"] {
                assert!(error.to_string().contains(word), "{error}");
            }
        }
        for open in ["0.0.0.0:7070", "[::]:7070", "10.0.0.7:7070", "[::ffff:10.0.0.7]:80", "192.168.1.1:7070"] {
            let open = open.parse().unwrap();
            let error = check_listen(open, false, &Encryption::Proxy).unwrap_err();
            assert_eq!(error.code().as_str(), "CONFIG.LISTEN");
            assert!(error.to_string().contains("[auth] required = false") && error.to_string().contains("127.0.0.1"));
            let error = check_listen(open, true, &Encryption::None).unwrap_err();
            assert_eq!(error.code().as_str(), "CONFIG.CLEAR_TEXT");
            for way in ["[server.tls]", "server.behind_tls_proxy = true", "127.0.0.1"] {
                assert!(error.to_string().contains(way), "{error}");
            }
            assert!(check_listen(open, true, &Encryption::Proxy).is_ok());
        }
    }

    fn check(method: &Method, headers: &[(&'static str, &str)]) -> Result<(), &'static str> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        check_names(method, &Uri::from_static("/v1/messages"), &map, &Encryption::None, &[])
            .map_err(|problem| problem.code.as_str())
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in
            ["localhost", "localhost:7070", "LOCALHOST:1", "127.0.0.1:7070", "[::1]", "[::1]:7070", "127.8.0.1:7070"]
        {
            assert_eq!(check(&Method::POST, &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "127.0.0.1@evil.example",
            "10.0.0.7",
            "[::2]",
            "::1",
            "",
            "localhost:x",
        ] {
            assert_eq!(check(&Method::GET, &[("host", host)]), Err("AUTH.HOST"), "{host}");
        }
        let by_uri = |uri| check_names(&Method::GET, &Uri::from_static(uri), &HeaderMap::new(), &Encryption::None, &[]);
        assert!(by_uri("/").is_err());
        assert!(by_uri("http://localhost:1/").is_ok());
    }

    /// What browsers say of a page at `localhost:7070`'s neighbours, and of pages far away. Per row: the host asked for, the
    /// page's origin, the browser's own verdict, and whether such a page may read and whether it may change something.
    #[test]
    fn pages_of_other_sites_and_of_other_ports_change_nothing() {
        type Row = (&'static str, Option<&'static str>, Option<&'static str>, bool, bool);
        let table: &[Row] = &[
            // Programs: neither header.
            ("localhost:7070", None, None, true, true),
            ("127.0.0.1:7070", None, None, true, true),
            // The host's own pages.
            ("localhost:7070", Some("http://localhost:7070"), Some("same-origin"), true, true),
            ("localhost:7070", Some("http://localhost:7070"), None, true, true),
            ("LOCALHOST:7070", Some("http://localhost:7070"), None, true, true),
            ("[::1]:7070", Some("http://[::1]:7070"), Some("same-origin"), true, true),
            ("localhost", Some("http://localhost"), Some("same-origin"), true, true),
            ("localhost:80", Some("http://localhost"), Some("same-origin"), true, true),
            ("localhost", Some("http://localhost:80"), None, true, true),
            ("localhost:7070", None, Some("same-origin"), true, true),
            // An address that a person typed.
            ("localhost:7070", None, Some("none"), true, true),
            // Other programs' pages on this machine.
            ("localhost:7070", Some("http://localhost:3000"), Some("same-site"), true, false),
            ("localhost:7070", Some("http://localhost:3000"), None, true, false),
            ("localhost:7070", Some("http://localhost"), None, true, false),
            ("localhost", Some("http://localhost:7070"), None, true, false),
            ("localhost:7070", Some("http://127.0.0.1:7070"), Some("cross-site"), false, false),
            ("localhost:7070", Some("http://127.0.0.1:7070"), None, true, false),
            ("localhost:443", Some("https://localhost"), None, true, false),
            ("localhost:7070", None, Some("same-site"), true, false),
            // They don't agree: somebody in between changed one of them.
            ("localhost:7070", Some("http://localhost:3000"), Some("same-origin"), true, false),
            ("localhost:7070", Some("http://localhost:7070"), Some("same-site"), true, false),
            // A page that hides its origin.
            ("localhost:7070", Some("null"), None, false, false),
            ("localhost:7070", Some("null"), Some("cross-site"), false, false),
            ("localhost:7070", Some("null"), Some("same-origin"), false, true),
            // Pages from afar.
            ("localhost:7070", Some("https://evil.example"), Some("cross-site"), false, false),
            ("localhost:7070", Some("https://evil.example"), None, false, false),
            ("localhost:7070", Some("http://localhost:7070.evil.example"), None, false, false),
            ("localhost:7070", Some("http://localhost:7070@evil.example"), None, false, false),
            ("localhost:7070", Some("chrome-extension://abc"), None, false, false),
            ("localhost:7070", Some("localhost:7070"), None, false, false),
            ("localhost:7070", None, Some("cross-site"), false, false),
            ("localhost:7070", None, Some("nonsense"), true, false),
        ];
        for (host, origin, site, reads, changes) in table {
            let mut headers = vec![("host", *host)];
            headers.extend(origin.map(|origin| ("origin", origin)));
            headers.extend(site.map(|site| ("sec-fetch-site", site)));
            let expected = |allowed: bool| if allowed { Ok(()) } else { Err("AUTH.ORIGIN") };
            for method in [Method::GET, Method::HEAD] {
                assert_eq!(check(&method, &headers), expected(*reads), "{method} {headers:?}");
            }
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::from_bytes(b"BREW").unwrap()] {
                assert_eq!(check(&method, &headers), expected(*changes), "{method} {headers:?}");
            }
        }
        let twice = [("host", "localhost:7070"), ("origin", "http://localhost:7070"), ("origin", "http://localhost:1")];
        assert_eq!(check(&Method::POST, &twice), Err("AUTH.ORIGIN"), "each of several has to be right");
    }

    #[test]
    fn what_a_proxy_sends_on_is_refused() {
        for name in ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"] {
            for method in [Method::GET, Method::POST] {
                // Empty, too: the header itself tells it.
                for value in ["203.0.113.7", ""] {
                    let headers = [("host", "127.0.0.1:7070"), (name, value)];
                    assert_eq!(check(&method, &headers), Err("AUTH.PROXY"), "{method} {name}");
                }
            }
        }
        assert_eq!(check(&Method::POST, &[("host", "127.0.0.1:7070"), ("x-forward", "1")]), Ok(()));
    }

    #[test]
    fn the_scheme_of_a_page_is_the_scheme_it_is_served_with() {
        let is = |origin, host, encryption| is_origin_of(origin, host, &encryption);
        assert!(is("https://localhost:7070", "localhost:7070", Encryption::Proxy));
        assert!(is("http://localhost:7070", "localhost:7070", Encryption::Proxy));
        assert!(!is("https://localhost:7070", "localhost:7070", Encryption::None));
    }
}
