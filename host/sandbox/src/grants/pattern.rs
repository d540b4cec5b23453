//! Patterns for peers: `tcp://HOST:PORT`, `http://HOST[:PORT]`, `https://HOST[:PORT]`.
//!
//! `HOST` is a name, `*.name` (one or more labels before it, not the name itself), an IPv4 address, an IPv6 address in
//! brackets, a network (`10.0.0.0/8`, `[fd00::]/8`), or `*`; `PORT` a number or `*`. No paths: a grant is about a peer, and
//! a pattern never promises more than is enforced.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use thiserror::Error;
use url::Host;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Tcp,
    /// HTTP in the clear.
    Http,
    Https,
}

impl Scheme {
    /// As written before `://`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Port where none is written.
    pub fn default_port(self) -> Option<u16> {
        match self {
            Self::Tcp => None,
            Self::Http => Some(80),
            Self::Https => Some(443),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// Every name and address.
    Any,
    /// Names that end in `.suffix`.
    Under(String),
    Name(String),
    /// One network; a single address is the network that holds only it.
    Net(IpNet),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortPattern {
    Any,
    Port(u16),
}

/// A pattern and the text it was written as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub scheme: Scheme,
    pub host: HostPattern,
    pub port: PortPattern,
    /// The operator knows who decides where this name leads: it may lead to this machine and to private networks.
    pub internal: bool,
    text: String,
}

/// Written before a granted name that may lead inside.
const INTERNAL: &str = "internal:";

/// Why a text isn't a pattern, with the fix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// No or another scheme.
    #[error("begin with tcp://, http:// or https://")]
    Scheme,
    /// Something after the port.
    #[error("leave out user name, path and query: a grant names a peer")]
    Extra,
    #[error("tcp:// needs a port: add one, or :* for any")]
    NoPort,
    #[error("{0:?} isn't a port: give a number from 1 to 65535, or *")]
    Port(String),
    #[error("{0:?} isn't a host: give a name, *.name, an address ([..] around IPv6), a network like 10.0.0.0/8, or *")]
    Host(String),
    /// The word about names before something else.
    #[error("internal: stands before one name without *: an address or a network is reached as it is")]
    Internal,
}

impl Pattern {
    /// Reads a pattern of an operator: before an exact name it may say `internal:`.
    pub fn parse_grant(text: &str) -> Result<Self, PatternError> {
        let Some(peer) = text.strip_prefix(INTERNAL) else { return Self::parse(text) };
        let pattern = Self::parse(peer)?;
        if !matches!(pattern.host, HostPattern::Name(_)) {
            return Err(PatternError::Internal);
        }
        Ok(Self { internal: true, text: text.to_owned(), ..pattern })
    }

    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (scheme, rest) = text.split_once("://").ok_or(PatternError::Scheme)?;
        let scheme = match scheme {
            "tcp" => Scheme::Tcp,
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(PatternError::Scheme),
        };
        let (host, port) = split_port(rest)?;
        let port = match port {
            Some("*") => PortPattern::Any,
            Some(port) => {
                let number: u16 = port.parse().map_err(|_| PatternError::Port(port.to_owned()))?;
                if number == 0 {
                    return Err(PatternError::Port(port.to_owned()));
                }
                PortPattern::Port(number)
            }
            None => PortPattern::Port(scheme.default_port().ok_or(PatternError::NoPort)?),
        };
        Ok(Self { scheme, host: host_pattern(host)?, port, internal: false, text: text.to_owned() })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is about byte streams (`tcp://`), not HTTP.
    pub fn is_stream(&self) -> bool {
        self.scheme == Scheme::Tcp
    }

    /// Whether scheme and port are this pattern's.
    pub fn covers_port(&self, scheme: Scheme, port: u16) -> bool {
        self.scheme == scheme
            && match self.port {
                PortPattern::Any => true,
                PortPattern::Port(own) => own == port,
            }
    }

    /// Whether a host as named by the plugin is this pattern's. A network holds addresses only, never names.
    pub fn covers_host(&self, host: &Host<String>) -> bool {
        match (&self.host, host) {
            (HostPattern::Any, _) => true,
            (HostPattern::Name(own), Host::Domain(name)) => own == name,
            (HostPattern::Under(suffix), Host::Domain(name)) => {
                name.strip_suffix(suffix.as_str()).is_some_and(|left| left.len() > 1 && left.ends_with('.'))
            }
            (HostPattern::Net(net), Host::Ipv4(address)) => net.contains(&IpAddr::V4(*address)),
            (HostPattern::Net(net), Host::Ipv6(address)) => net.contains(&address.to_canonical()),
            _ => false,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits `HOST[:PORT]`, where HOST may be `[v6]` or `[v6]/len`.
fn split_port(rest: &str) -> Result<(&str, Option<&str>), PatternError> {
    let after_bracket = rest.rfind(']').map_or(0, |at| at + 1);
    let tail = rest.get(after_bracket..).unwrap_or_default();
    let (host, port) = match tail.rfind(':') {
        Some(at) => (rest.get(..after_bracket + at).unwrap_or_default(), tail.get(at + 1..)),
        None => (rest, None),
    };
    let is_net =
        host.rsplit_once('/').is_some_and(|(_, len)| !len.is_empty() && len.bytes().all(|b| b.is_ascii_digit()));
    let slashes = host.matches('/').count();
    if rest.contains(['@', '?', '#']) || slashes > usize::from(is_net) || port.is_some_and(|port| port.contains('/')) {
        return Err(PatternError::Extra);
    }
    Ok((host, port))
}

fn host_pattern(host: &str) -> Result<HostPattern, PatternError> {
    let wrong = || PatternError::Host(host.to_owned());
    if host == "*" {
        return Ok(HostPattern::Any);
    }
    if let Some(suffix) = host.strip_prefix("*.") {
        return match canonical_host(suffix) {
            Some(Host::Domain(name)) if !name.contains('*') => Ok(HostPattern::Under(name)),
            _ => Err(wrong()),
        };
    }
    if host.contains('*') {
        return Err(wrong());
    }
    if let Some((network, len)) = host.rsplit_once('/') {
        let network = network.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(network);
        let address: IpAddr = network.parse().map_err(|_| wrong())?;
        let len: u8 = len.parse().map_err(|_| wrong())?;
        return IpNet::new(address, len).map(|net| HostPattern::Net(net.trunc())).map_err(|_| wrong());
    }
    match canonical_host(host).ok_or_else(wrong)? {
        Host::Domain(name) => Ok(HostPattern::Name(name)),
        Host::Ipv4(address) => Ok(HostPattern::Net(IpAddr::V4(address).into())),
        Host::Ipv6(address) => Ok(HostPattern::Net(address.to_canonical().into())),
    }
}

/// A host in its one normal form, by the rules of URLs: lower case, IDNA, decimal / octal / hex IPv4 as addresses, no final
/// dot, IPv4-mapped IPv6 as IPv4.
pub(crate) fn canonical_host(host: &str) -> Option<Host<String>> {
    let parsed = Host::parse(host).ok()?;
    Some(match parsed {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
            if name.is_empty() || name.starts_with('.') || name.len() > 253 {
                return None;
            }
            Host::Domain(name)
        }
        Host::Ipv6(address) => match address.to_canonical() {
            IpAddr::V4(v4) => Host::Ipv4(v4),
            IpAddr::V6(v6) => Host::Ipv6(v6),
        },
        v4 => v4,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn covers(pattern: &str, host: &str) -> bool {
        Pattern::parse(pattern).unwrap().covers_host(&canonical_host(host).unwrap())
    }

    #[test]
    fn ports_have_a_default_only_where_the_scheme_has_one() {
        assert_eq!(Pattern::parse("http://x").unwrap().port, PortPattern::Port(80));
        assert_eq!(Pattern::parse("https://x").unwrap().port, PortPattern::Port(443));
        assert_eq!(Pattern::parse("tcp://x"), Err(PatternError::NoPort));
        assert_eq!(Pattern::parse("tcp://x:*").unwrap().port, PortPattern::Any);
    }

    #[test]
    fn what_isnt_a_pattern_is_refused() {
        for text in [
            "x:80",
            "*://x:80",
            "ftp://x:1",
            "tcp://x:0",
            "tcp://x:99999",
            "tcp://x:",
            "http://u@x",
            "http://x/a",
            "http://x?y",
            "http://",
            "http://a*b",
            "http://*.",
            "http://*.*",
            "http://10.0.0.0/33",
            "http://x/8",
            "tcp://[::1:80",
            "http://x:80/a",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_name_in_a_grant_is_internal() {
        let marked = Pattern::parse_grant("internal:tcp://broker.internal:4222").unwrap();
        assert!(marked.internal && marked.as_str() == "internal:tcp://broker.internal:4222");
        assert_eq!(marked.host, HostPattern::Name("broker.internal".to_owned()));
        assert!(!Pattern::parse_grant("tcp://broker.internal:4222").unwrap().internal);
        for text in
            ["internal:http://*.example", "internal:http://*", "internal:http://10.0.0.0/8", "internal:http://[::1]"]
        {
            assert_eq!(Pattern::parse_grant(text), Err(PatternError::Internal), "{text}");
        }
        assert_eq!(Pattern::parse_grant("internal:broker:4222"), Err(PatternError::Scheme));
        assert_eq!(Pattern::parse("internal:http://broker"), Err(PatternError::Scheme), "a plugin may not ask for it");
    }

    #[test]
    fn a_suffix_covers_what_is_below_it_and_not_itself() {
        assert!(covers("http://*.example.com", "a.example.com"));
        assert!(covers("http://*.example.com", "a.b.EXAMPLE.com."));
        assert!(!covers("http://*.example.com", "example.com"));
        assert!(!covers("http://*.example.com", "badexample.com"));
        assert!(!covers("http://*.example.com", "1.2.3.4"));
    }

    #[test]
    fn a_network_covers_addresses_in_any_spelling_and_no_names() {
        for spelling in ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]"] {
            assert!(covers("http://127.0.0.0/8", spelling), "{spelling}");
            assert!(covers("http://127.0.0.1", spelling), "{spelling}");
        }
        assert!(!covers("http://127.0.0.0/8", "localhost"));
        assert!(covers("tcp://[fd00::]/8:5", "[fd12::1]"));
        assert!(!covers("tcp://[fd00::]/8:5", "[fe80::1]"));
    }
}
