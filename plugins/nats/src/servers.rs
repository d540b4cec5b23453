//! Where the servers are, and which one is tried next.

use std::fmt;
use std::net::IpAddr;

use crate::config::Order;

/// Port where none is written.
const PORT_DEFAULT: u16 = 4222;
/// Most servers kept that others told about.
const DISCOVERED_MAX: usize = 64;

/// Address of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Name or IP address; an IPv6 one without brackets.
    pub(crate) host: String,
    port: u16,
    /// The operator wrote `tls://`.
    pub(crate) tls: bool,
    /// Name to verify where the host is an IP address that another server told: certificates seldom hold those.
    name: Option<String>,
}

impl Address {
    /// Reads `nats://host:port`, `tls://host:port`, `host:port` or `host`.
    ///
    /// # Errors
    /// What is wrong with it; never with the text itself, which may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (tls, rest) = match text.split_once("://") {
            Some(("nats", rest)) => (false, rest),
            Some(("tls", rest)) => (true, rest),
            Some(_) => return Err("has another scheme than nats:// or tls://"),
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
            None if port.is_empty() => PORT_DEFAULT,
            None => return Err("has something else than a port after its host"),
        };
        let known = |letter: char| letter.is_alphanumeric() || "-._:%".contains(letter);
        if host.is_empty() || !host.chars().all(known) {
            return Err("has no host");
        }
        Ok(Self { host: host.to_owned(), port, tls, name: None })
    }

    /// As `net` wants it.
    pub(crate) fn uri(&self) -> String {
        format!("tcp://{self}")
    }

    /// What the server's certificate has to hold.
    pub(crate) fn verified(&self) -> &str {
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
pub(crate) struct Servers {
    /// The configured ones first, then what servers told.
    all: Vec<Address>,
    configured: usize,
    /// The one that told it is about to shut down, or was lost last: tried after all others.
    shunned: Option<Address>,
}

impl Servers {
    /// `random` spreads the load where the order asks for it.
    pub(crate) fn new(mut configured: Vec<Address>, order: Order, mut random: impl FnMut() -> u64) -> Self {
        if order == Order::Random {
            // Fisher and Yates.
            for last in (1..configured.len()).rev() {
                let bound = last as u64 + 1;
                configured.swap(last, usize::try_from(random() % bound).unwrap_or(0));
            }
        }
        Self { configured: configured.len(), all: configured, shunned: None }
    }

    /// One round: everybody once, the shunned one last.
    pub(crate) fn round(&self) -> Vec<Address> {
        let shunned = |address: &Address| self.shunned.as_ref().is_some_and(|other| other.is_same_place(address));
        let mut round = self.all.clone();
        round.sort_by_key(shunned);
        round
    }

    /// The same without this one.
    pub(crate) fn others(&self, than: &Address) -> Vec<Address> {
        let mut round = self.round();
        round.retain(|address| !address.is_same_place(than));
        round
    }

    /// Tries this one after all others, until another is shunned.
    pub(crate) fn shun(&mut self, address: &Address) {
        self.shunned = Some(address.clone());
    }

    /// Takes over what a server told; what it left out is forgotten. An IP address goes by the name of the server that told it.
    pub(crate) fn learn(&mut self, told: &[String], by: &Address) {
        if told.is_empty() {
            return;
        }
        self.all.truncate(self.configured);
        for text in told.iter().take(DISCOVERED_MAX) {
            let Ok(address) = Address::parse(text) else { continue };
            if !self.all.iter().any(|known| known.is_same_place(&address)) {
                let name = address.is_ip().then(|| by.verified().to_owned());
                self.all.push(Address { tls: by.tls, name, ..address });
            }
        }
    }

    /// Forgets one that the grant doesn't reach, so that it isn't tried again. The configured ones stay.
    pub(crate) fn forget(&mut self, address: &Address) {
        let mut place = 0;
        let configured = self.configured;
        self.all.retain(|known| {
            place += 1;
            place <= configured || !known.is_same_place(address)
        });
    }

    /// Whether an operator named it.
    pub(crate) fn is_configured(&self, address: &Address) -> bool {
        self.all.iter().take(self.configured).any(|known| known.is_same_place(address))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn addresses(list: &[&str]) -> Vec<Address> {
        list.iter().map(|text| Address::parse(text).unwrap()).collect()
    }

    fn shown(list: &[Address]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_are_read() {
        for (text, uri, tls) in [
            ("nats://a.example:4223", "tcp://a.example:4223", false),
            ("tls://a.example", "tcp://a.example:4222", true),
            ("127.0.0.1:1/", "tcp://127.0.0.1:1", false),
            ("nats://[::1]:7", "tcp://[::1]:7", false),
            ("[fe80::1]", "tcp://[fe80::1]:4222", false),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.uri().as_str(), address.tls), (uri, tls), "{text}");
        }
        for text in
            ["", "nats://", "http://a", "nats://u:p@a", "a:b", "a:99999", "::1", "[::1", "[::1]7", "a b:1", "a/b"]
        {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_round_names_everybody_once_and_the_shunned_one_last() {
        let mut servers = Servers::new(addresses(&["a:1", "b:1", "c:1"]), Order::Listed, || 0);
        servers.shun(&Address::parse("a:1").unwrap());
        assert_eq!(shown(&servers.round()), ["b:1", "c:1", "a:1"]);
        servers.shun(&Address::parse("b:1").unwrap());
        assert_eq!(shown(&servers.round()), ["a:1", "c:1", "b:1"]);
    }

    #[test]
    fn a_random_order_loses_nobody() {
        let mut next = 0;
        let mut random = || {
            next += 7;
            next
        };
        let servers = Servers::new(addresses(&["a:1", "b:1", "c:1", "d:1"]), Order::Random, &mut random);
        let mut names = shown(&servers.round());
        names.sort();
        assert_eq!(names, ["a:1", "b:1", "c:1", "d:1"]);
    }

    #[test]
    fn what_servers_tell_comes_after_what_is_configured_and_can_be_forgotten() {
        let mut servers = Servers::new(addresses(&["a:1"]), Order::Listed, || 0);
        let (a, b) = (Address::parse("a:1").unwrap(), Address::parse("b:2").unwrap());
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
        let by = Address::parse("tls://nats.example:1").unwrap();
        let mut servers = Servers::new(vec![by.clone()], Order::Listed, || 0);
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
        assert_eq!(Address::parse("10.0.0.2:1").unwrap().verified(), "10.0.0.2");
    }
}
