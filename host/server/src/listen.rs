//! Where the server may listen, and which names it answers to while it asks nobody for a token.
//!
//! A browser on the same machine can reach loopback. Two tricks would let a page of another site use it: a name of that
//! site that resolves to 127.0.0.1 (DNS rebinding), and a plain cross-site POST. The Host and Origin headers, which a
//! page can't forge, give both away.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, Uri, header};

use crate::error::ServerError;
use crate::problem::Problem;

/// Refuses to listen beyond loopback while nothing is configured that keeps others out.
pub fn check_listen(address: SocketAddr, auth_configured: bool) -> Result<(), ServerError> {
    if auth_configured || is_loopback(address.ip()) { Ok(()) } else { Err(ServerError::Listen { address }) }
}

fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    }
}

/// Whether a request without a token comes from this machine's own programs, and not from a page of another site.
pub fn check_names(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let host = match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST).and_then(|value| value.to_str().ok()),
    };
    let also = headers.get_all(header::HOST).iter().any(|value| !value.to_str().is_ok_and(is_local_name));
    match host {
        Some(host) if is_local_name(host) && !also => {}
        _ => {
            return Err(Problem::new(
                "AUTH.HOST",
                format!(
                    "the Host header is {:?}: without [auth] this host answers to localhost, 127.0.0.1 and [::1] only",
                    host.unwrap_or("")
                ),
            ));
        }
    }
    let foreign = headers.get_all(header::ORIGIN).iter().any(|origin| {
        let name = origin.to_str().ok().and_then(|text| text.split_once("://")).map(|(_, name)| name);
        !name.is_some_and(is_local_name)
    });
    let cross = headers.get_all("sec-fetch-site").iter().any(|site| site.as_bytes() == b"cross-site");
    if foreign || cross {
        return Err(Problem::new(
            "AUTH.ORIGIN",
            "a page of another site asked: without [auth] only programs on this machine are served",
        ));
    }
    Ok(())
}

/// `localhost` or a loopback address, with any port. A site can't make its own name one of these.
fn is_local_name(authority: &str) -> bool {
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
    fn beyond_loopback_auth_is_needed() {
        for loopback in ["127.0.0.1:7070", "127.8.0.1:1", "[::1]:7070", "[::ffff:127.0.0.1]:80"] {
            assert!(check_listen(loopback.parse().unwrap(), false).is_ok(), "{loopback}");
        }
        for open in ["0.0.0.0:7070", "[::]:7070", "10.0.0.7:7070", "[::ffff:10.0.0.7]:80", "192.168.1.1:7070"] {
            let error = check_listen(open.parse().unwrap(), false).unwrap_err();
            assert_eq!(error.code(), "CONFIG.LISTEN");
            assert!(error.to_string().contains("[auth]") && error.to_string().contains("127.0.0.1"));
            assert!(check_listen(open.parse().unwrap(), true).is_ok());
        }
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let check = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            check_names(&Uri::from_static("/v1/messages"), &headers)
        };
        for host in
            ["localhost", "localhost:7070", "LOCALHOST:1", "127.0.0.1:7070", "[::1]", "[::1]:7070", "127.8.0.1:7070"]
        {
            assert!(check(host).is_ok(), "{host}");
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
            assert_eq!(check(host).unwrap_err().code.code, "AUTH.HOST", "{host}");
        }
        assert!(check_names(&Uri::from_static("/"), &HeaderMap::new()).is_err());
        assert!(check_names(&Uri::from_static("http://localhost:1/"), &HeaderMap::new()).is_ok());
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let check = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "localhost:7070".parse().unwrap());
            headers.insert(name, value.parse().unwrap());
            check_names(&Uri::from_static("/"), &headers).map_err(|problem| problem.code.code)
        };
        assert_eq!(check("origin", "https://evil.example"), Err("AUTH.ORIGIN"));
        assert_eq!(check("origin", "null"), Err("AUTH.ORIGIN"));
        assert_eq!(check("sec-fetch-site", "cross-site"), Err("AUTH.ORIGIN"));
        assert_eq!(check("origin", "http://localhost:7070"), Ok(()));
        assert_eq!(check("sec-fetch-site", "same-origin"), Ok(()));
    }
}
