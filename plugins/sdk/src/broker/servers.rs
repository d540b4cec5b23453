//! Addresses of servers as an operator writes them, and which one is tried next: a failover list for a protocol of one's own.
//!
//! ```
//! use waybill_plugin::broker::{Address, Scheme, Servers};
//!
//! const NATS: Scheme = Scheme { plain: "nats", tls: "tls", port: 4222, tls_port: 4222 };
//! let addresses = ["nats://a.example", "tls://b.example:4333"].map(|text| Address::parse(text, &NATS));
//! let mut servers = Servers::new(&NATS, addresses.into_iter().collect::<Result<Vec<_>, _>>()?);
//! let round = servers.round();
//! assert_eq!(round[0].uri(), "tcp://a.example:4222");
//! servers.shun(&round[0]);
//! assert_eq!(servers.round()[0].host, "b.example");
//! # Ok::<(), &'static str>(())
//! ```
//!
//! What this doesn't do: connect.

use std::fmt;
use std::net::IpAddr;

/// Most servers kept that others told about.
const DISCOVERED_MAX: usize = 64;

/// How a protocol's addresses are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// In plain text, e.g. `nats` for `nats://host`; an address without a scheme is one too.
    pub plain: &'static str,
    /// The scheme for TLS, e.g. `tls` for `tls://host`.
    pub tls: &'static str,
    /// Port where none is written.
    pub port: u16,
    /// The same in TLS.
    pub tls_port: u16,
}

/// Address of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or IP address; an IPv6 one without brackets.
    pub host: String,
    port: u16,
    /// The operator wrote the scheme for TLS.
    pub tls: bool,
    /// Name to verify where the host is an IP address that another server told: certificates seldom hold those.
    name: Option<String>,
}

impl Address {
    /// Reads `scheme://host:port`, `scheme://host`, `host:port` or `host`.
    ///
    /// # Errors
    /// What is wrong with it; never with the text itself, which may hold a password.
    pub fn parse(text: &str, scheme: &Scheme) -> Result<Self, &'static str> {
        let (tls, rest) = match text.split_once("://") {
            Some((name, rest)) if name == scheme.plain => (false, rest),
            Some((name, rest)) if name == scheme.tls => (true, rest),
            Some(_) => return Err("has a scheme of another protocol"),
            None => (false, text),
        };
        if rest.contains('@') {
            return Err("holds credentials: grant them as secrets, this document is shown");
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = if let Some(inside) = rest.strip_prefix('[') {
            inside.split_once(']').ok_or("has a bracket too few")?
        } else if rest.matches(':').count() > 1 {
            return Err("is an IPv6 address without brackets");
        } else {
            rest.split_at(rest.find(':').unwrap_or(rest.len()))
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().map_err(|_| "has a wrong port")?,
            None if port.is_empty() => {
                if tls {
                    scheme.tls_port
                } else {
                    scheme.port
                }
            }
            None => return Err("has something else than a port after its host"),
        };
        let known = |letter: char| letter.is_alphanumeric() || "-._:%".contains(letter);
        if host.is_empty() || !host.chars().all(known) {
            return Err("has no host");
        }
        Ok(Self { host: host.to_owned(), port, tls, name: None })
    }

    /// As `net` wants it.
    pub fn uri(&self) -> String {
        format!("tcp://{self}")
    }

    /// What the server's certificate has to hold.
    pub fn verified(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.host)
    }

    fn is_ip(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok()
    }

    fn is_same_place(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host) && self.port == other.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The servers known, in the order in which they are tried.
#[derive(Debug)]
pub struct Servers {
    scheme: Scheme,
    /// The configured ones first, then what servers told.
    all: Vec<Address>,
    configured: usize,
    /// The one that told it is about to shut down, or was lost last: tried after all others.
    shunned: Option<Address>,
}

impl Servers {
    /// Tried in this order.
    pub fn new(scheme: &Scheme, configured: Vec<Address>) -> Self {
        Self { scheme: *scheme, configured: configured.len(), all: configured, shunned: None }
    }

    /// Tried in a random order, which spreads the load. To be called before anything is learned.
    #[must_use]
    pub fn shuffled(mut self, mut random: impl FnMut() -> u64) -> Self {
        // Fisher and Yates.
        for last in (1..self.all.len()).rev() {
            let bound = last as u64 + 1;
            self.all.swap(last, usize::try_from(random() % bound).unwrap_or(0));
        }
        self
    }

    /// One round: everybody once, the shunned one last.
    pub fn round(&self) -> Vec<Address> {
        let shunned = |address: &Address| self.shunned.as_ref().is_some_and(|other| other.is_same_place(address));
        let mut round = self.all.clone();
        round.sort_by_key(shunned);
        round
    }

    /// The same without this one.
    pub fn others(&self, than: &Address) -> Vec<Address> {
        let mut round = self.round();
        round.retain(|address| !address.is_same_place(than));
        round
    }

    /// Tries this one after all others, until another is shunned.
    pub fn shun(&mut self, address: &Address) {
        self.shunned = Some(address.clone());
    }

    /// Takes over what a server told; what it left out is forgotten. An IP address goes by the name of the server that told it.
    pub fn learn(&mut self, told: &[String], by: &Address) {
        if told.is_empty() {
            return;
        }
        self.all.truncate(self.configured);
        for text in told.iter().take(DISCOVERED_MAX) {
            let Ok(address) = Address::parse(text, &self.scheme) else { continue };
            if !self.all.iter().any(|known| known.is_same_place(&address)) {
                let name = address.is_ip().then(|| by.verified().to_owned());
                self.all.push(Address { tls: by.tls, name, ..address });
            }
        }
    }

    /// Forgets one that the grant doesn't reach, so that it isn't tried again. The configured ones stay.
    pub fn forget(&mut self, address: &Address) {
        let mut place = 0;
        let configured = self.configured;
        self.all.retain(|known| {
            place += 1;
            place <= configured || !known.is_same_place(address)
        });
    }

    /// Whether an operator named it.
    pub fn is_configured(&self, address: &Address) -> bool {
        self.all.iter().take(self.configured).any(|known| known.is_same_place(address))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NATS: Scheme = Scheme { plain: "nats", tls: "tls", port: 4222, tls_port: 4333 };

    fn parse(text: &str) -> Result<Address, &'static str> {
        Address::parse(text, &NATS)
    }

    fn servers(list: &[&str]) -> Servers {
        Servers::new(&NATS, list.iter().map(|text| parse(text).unwrap()).collect())
    }

    fn shown(list: &[Address]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_are_read() {
        for (text, uri, tls) in [
            ("nats://a.example:4223", "tcp://a.example:4223", false),
            ("tls://a.example", "tcp://a.example:4333", true),
            ("127.0.0.1:1/", "tcp://127.0.0.1:1", false),
            ("nats://[::1]:7", "tcp://[::1]:7", false),
            ("[fe80::1]", "tcp://[fe80::1]:4222", false),
        ] {
            let address = parse(text).unwrap();
            assert_eq!((address.uri().as_str(), address.tls), (uri, tls), "{text}");
        }
        for text in
            ["", "nats://", "http://a", "nats://u:p@a", "a:b", "a:99999", "::1", "[::1", "[::1]7", "a b:1", "a/b"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_round_names_everybody_once_and_the_shunned_one_last() {
        let mut servers = servers(&["a:1", "b:1", "c:1"]);
        servers.shun(&parse("a:1").unwrap());
        assert_eq!(shown(&servers.round()), ["b:1", "c:1", "a:1"]);
        servers.shun(&parse("b:1").unwrap());
        assert_eq!(shown(&servers.round()), ["a:1", "c:1", "b:1"]);
    }

    #[test]
    fn a_random_order_loses_nobody() {
        let mut next = 0;
        let mut random = || {
            next += 7;
            next
        };
        let servers = servers(&["a:1", "b:1", "c:1", "d:1"]).shuffled(&mut random);
        let mut names = shown(&servers.round());
        names.sort();
        assert_eq!(names, ["a:1", "b:1", "c:1", "d:1"]);
    }

    #[test]
    fn what_servers_tell_comes_after_what_is_configured_and_can_be_forgotten() {
        let mut servers = servers(&["a:1"]);
        let (a, b) = (parse("a:1").unwrap(), parse("b:2").unwrap());
        servers.learn(&["A:1".to_owned(), "b:2".to_owned(), "not an address".to_owned()], &a);
        assert_eq!(shown(&servers.round()), ["a:1", "b:2"]);
        assert_eq!(shown(&servers.others(&a)), ["b:2"]);
        assert!(servers.is_configured(&a) && !servers.is_configured(&b));
        servers.forget(&b);
        servers.forget(&a);
        assert_eq!(shown(&servers.round()), ["a:1"]);
        servers.learn(&(0..200).map(|number| format!("c:{number}")).collect::<Vec<_>>(), &a);
        assert_eq!(servers.round().len(), 1 + DISCOVERED_MAX);
        servers.learn(&["d:1".to_owned()], &b);
        assert_eq!(shown(&servers.round()), ["a:1", "d:1"]);
    }

    #[test]
    fn an_ip_address_is_verified_by_the_name_of_the_server_that_told_it() {
        let by = parse("tls://nats.example:1").unwrap();
        let mut servers = Servers::new(&NATS, vec![by.clone()]);
        let told = ["10.0.0.2:1", "[fe80::1]:1", "other.example:1"].map(str::to_owned);
        let verified = |servers: &Servers| -> Vec<(String, bool)> {
            servers.round().iter().map(|address| (address.verified().to_owned(), address.tls)).collect()
        };
        let expected = ["nats.example", "nats.example", "nats.example", "other.example"];
        servers.learn(&told, &by);
        assert_eq!(verified(&servers), expected.map(|name| (name.to_owned(), true)));
        // The name is handed on.
        let second = servers.round().into_iter().nth(1).unwrap();
        servers.learn(&told, &second);
        assert_eq!(verified(&servers), expected.map(|name| (name.to_owned(), true)));
        assert_eq!(parse("10.0.0.2:1").unwrap().verified(), "10.0.0.2");
    }
}
