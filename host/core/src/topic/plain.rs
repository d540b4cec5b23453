//! Addresses that are seen to be in the form in which they are called, without reading them as URLs: every message has one,
//! and reading a URL costs more than all else that is checked of a message.

use std::net::Ipv4Addr;

/// Longest host that is looked at here, in bytes, and its longest label: those of DNS.
const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Whether an address is surely what [`super::called`] answers for it. In doubt, false.
pub(super) fn is_plain(address: &str) -> bool {
    let (own_port, rest) = match (address.strip_prefix("http://"), address.strip_prefix("https://")) {
        (Some(rest), _) => (80, rest),
        (_, Some(rest)) => (443, rest),
        _ => return false,
    };
    let Some((authority, path)) = rest.split_once('/') else { return false };
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    is_plain_host(host) && port.is_none_or(|port| is_plain_port(port, own_port)) && is_plain_path(path)
}

/// A name in lower case, or an IPv4 address as it is usually written.
fn is_plain_host(host: &str) -> bool {
    if host.len() > HOST_BYTES_MAX {
        return false;
    }
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            // `xn--` and what may become something like it are read as what they stand for.
            && !label.contains("--")
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if !host.split('.').all(is_label) {
        return false;
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    // A host whose last label is a number is an address, in many spellings.
    !last.starts_with(|first: char| first.is_ascii_digit()) || host.parse::<Ipv4Addr>().is_ok()
}

fn is_plain_port(port: &str, own: u16) -> bool {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    is_number && port.parse::<u16>().is_ok_and(|port| port != own)
}

/// Path without its first `/`, and query.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/?=&".contains(&byte);
    // Segments of dots are resolved.
    path.bytes().all(is_plain) && !path.starts_with('.') && !path.contains("/.")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::called;
    use super::*;

    #[test]
    fn usual_addresses_are_plain() {
        for address in [
            "http://127.0.0.1:4810/orders",
            "http://localhost:8080/",
            "https://hooks.shop-7.example/v1/orders.json?tenant=acme&kind=a-b",
            "https://shop.example:80/",
        ] {
            assert!(is_plain(address), "{address}");
        }
    }

    #[test]
    fn what_is_called_otherwise_or_refused_is_not() {
        for address in [
            "http://shop.example",
            "http://shop.example:80/",
            "http://shop.example:/",
            "http://shop.example./",
            "http://Shop.example/",
            "http://2130706433/",
            "http://127.1/",
            "http://127.0.0.01/",
            "http://a.0x7f/",
            "http://u@shop.example/",
            "http://xn--bcher-kva.example/",
            "http://shop.example/a/../b",
            "http://shop.example/..",
            "http://shop.example/%2e%2e/b",
            "http://shop.example/a#b",
            "http://shop.example/a b",
            "http:///a",
            "http://[::1]/",
            "http://shop.example:65536/",
        ] {
            assert!(!is_plain(address), "{address}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn a_plain_address_is_called_as_it_is(
            address in prop_oneof![
                "https?://[a-z0-9.x-]{0,12}(:[0-9]{0,5})?/[a-zA-Z0-9./?=&~_-]{0,16}",
                "http://[0-9a-fx.]{1,16}/[./?]{0,6}",
                "https?://[ -~]{0,24}",
            ]
        ) {
            if is_plain(&address) {
                prop_assert_eq!(called(&address).map(String::from), Ok(address));
            }
        }
    }
}
