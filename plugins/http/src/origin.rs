//! The origin of a URL: what is blocked when a receiver refuses us, and what may be shown of a URL (a path or a query may
//! hold a token, a user name does).

/// `scheme://host` with `:port` where it isn't the scheme's own, in lower case; none for anything but an absolute `http:` or
/// `https:` URL with a host.
pub(crate) fn of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let default_port = match scheme.as_str() {
        "http" => "80",
        "https" => "443",
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = split_port(host_and_port)?;
    if host.is_empty() || host.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return None;
    }
    let host = host.to_lowercase();
    if port.is_empty() || port == default_port {
        Some(format!("{scheme}://{host}"))
    } else {
        Some(format!("{scheme}://{host}:{port}"))
    }
}

/// What a log or a dead letter may show of something that should have been a URL: at most its first 64 characters, up to
/// where a path, a query or a user name would start.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_CHARS: usize = 64;
    if let Some(origin) = of(text) {
        return origin;
    }
    let start = text.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = text.split_at(start);
    let rest = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    scheme.chars().chain(rest.chars()).filter(|letter| !letter.is_control()).take(SHOWN_CHARS).collect()
}

/// Host (an IPv6 address with its brackets) and port (without the colon; empty if there is none).
fn split_port(text: &str) -> Option<(&str, &str)> {
    let colon = match text.rfind(']') {
        Some(bracket) if text.starts_with('[') => {
            let after = text.get(bracket + 1..)?;
            if after.is_empty() {
                None
            } else if after.starts_with(':') {
                Some(bracket + 1)
            } else {
                return None;
            }
        }
        _ => text.find(':'),
    };
    let Some(colon) = colon else { return Some((text, "")) };
    let port = text.get(colon + 1..)?;
    let valid = port.is_empty() || port.parse::<u16>().is_ok_and(|_| port.bytes().all(|byte| byte.is_ascii_digit()));
    valid.then_some((text.get(..colon)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_scheme_host_and_unusual_port() {
        for (url, expected) in [
            ("https://Shop.Example/hooks?token=x", "https://shop.example"),
            ("HTTP://shop.example:80", "http://shop.example"),
            ("https://shop.example:443/a", "https://shop.example"),
            ("http://shop.example:443/a", "http://shop.example:443"),
            ("http://127.0.0.1:9000#a", "http://127.0.0.1:9000"),
            ("http://[::1]:9000/a", "http://[::1]:9000"),
            ("http://[::1]/a", "http://[::1]"),
            ("https://user:se:cret@shop.example:8443/a@b", "https://shop.example:8443"),
        ] {
            assert_eq!(of(url).as_deref(), Some(expected), "{url}");
        }
    }

    #[test]
    fn what_is_no_url_has_no_origin() {
        for text in [
            "",
            "shop.example",
            "ftp://shop.example",
            "http:/shop.example",
            "http://",
            "http:///a",
            "http://:80/",
            "https://a b/",
            "http://a:port/",
            "http://a:99999/",
            "http://a:+80/",
            "http://[::1]x/",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        assert_eq!(shown("ftp://user:secret@shop.example/path?token=x"), "ftp://shop.example");
        assert_eq!(shown("orders.created?token=x"), "orders.created");
        assert_eq!(shown("https://shop.example/path?token=x"), "https://shop.example");
    }
}
