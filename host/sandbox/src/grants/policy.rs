//! Which peers an endpoint reaches: names first, then every resolved address, then a connection to exactly those.
//!
//! A name, exact or with a wildcard, reaches global unicast addresses only: whoever owns a name decides where it leads. This
//! machine, private and link-local networks are reached when the grant has the address or its network, `localhost`, or says
//! `internal` of the exact name or of all of them. Cloud metadata is reached only by its exact address, the host's own API only
//! by its exact address or `localhost`, and its port. If one answer of the resolver is blocked, the peer is.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};
use waybill_core::endpoint::Grants;

use super::address::{AddressClass, METADATA_NAMES, classify};
use super::names::Names;
use super::own::OwnListeners;
use super::pattern::{HostPattern, Pattern, PortPattern, Scheme, canonical_host};
use super::peers;
use super::resolve::Resolve;
use crate::error::SandboxError;
use crate::limits::ADDRESSES_MAX;

/// A peer as a plugin names it, in normal form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    pub scheme: Scheme,
    pub host: Host<String>,
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.as_str(), self.host, self.port)
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConnectFailure {
    /// Not granted; says which line is missing.
    #[error("{0}")]
    Denied(String),
    /// Not a usable address.
    #[error("{0}")]
    BadAddress(String),
    /// The name can't be resolved.
    #[error("{0}")]
    Resolve(String),
    #[error("connection refused")]
    Refused,
    /// The time was over.
    #[error("no connection in the time given")]
    Timeout,
    #[error("{0}")]
    Other(String),
}

impl Target {
    pub fn from_stream_uri(uri: &str) -> Result<Self, ConnectFailure> {
        let bad = |cause: &str| ConnectFailure::BadAddress(format!("{uri:?}: {cause}"));
        let rest = uri.strip_prefix("tcp://").ok_or_else(|| bad("only tcp://host:port is supported"))?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| bad("the port is missing"))?;
        let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| bad("the port isn't 1 to 65535"))?;
        if host.contains(['/', '@', '?', '#']) {
            return Err(bad("only host and port are taken"));
        }
        let host = canonical_host(host).ok_or_else(|| bad("the host isn't a name or an address"))?;
        Ok(Self { scheme: Scheme::Tcp, host, port })
    }

    /// The peer of an absolute `http:` or `https:` URL.
    pub fn from_url(url: &Url) -> Result<Self, ConnectFailure> {
        let bad = |cause: &str| ConnectFailure::BadAddress(format!("{url}: {cause}"));
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(bad("only http: and https: are supported")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ConnectFailure::BadAddress("credentials in a URL aren't taken: send a header".to_owned()));
        }
        let host = url.host_str().and_then(canonical_host).ok_or_else(|| bad("it has no usable host"))?;
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or_else(|| bad("it has no usable port"))?;
        Ok(Self { scheme, host, port })
    }
}

/// The rules of one endpoint.
pub struct EgressPolicy {
    endpoint: String,
    /// The setting that grants.
    list: &'static str,
    ask: Vec<Pattern>,
    grant: Vec<Pattern>,
    /// All exact names may lead inside.
    internal: bool,
    resolver: Arc<dyn Resolve>,
    names: Names,
    own: OwnListeners,
}

impl fmt::Debug for EgressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressPolicy").field("ask", &self.ask).field("grant", &self.grant).finish_non_exhaustive()
    }
}

impl EgressPolicy {
    /// Rules of `endpoint`: what its plugin asks for and what its operator grants. Errors when a granted pattern can't be read.
    pub fn new(
        endpoint: &str,
        ask: Vec<Pattern>,
        grants: &Grants,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, SandboxError> {
        Ok(Self {
            endpoint: endpoint.to_owned(),
            list: "allow.net",
            ask,
            grant: peers(grants)?,
            internal: grants.internal,
            names: Names::new(Arc::clone(&resolver)),
            resolver,
            own: OwnListeners::default(),
        })
    }

    /// The same on a host that listens there.
    #[must_use]
    pub fn beside(self, own: OwnListeners) -> Self {
        Self { own, ..self }
    }

    /// The same, where another setting of the endpoint grants.
    #[must_use]
    pub fn granted_by(self, list: &'static str) -> Self {
        Self { list, ..self }
    }

    /// Judges a peer by its name, before anything is looked up: an unmatched name isn't even resolved.
    pub fn admit(&self, target: &Target) -> Result<(), ConnectFailure> {
        let covers =
            |pattern: &&Pattern| pattern.covers_port(target.scheme, target.port) && pattern.covers_host(&target.host);
        if !self.ask.iter().any(|pattern| covers(&pattern)) {
            let kind = if target.scheme == Scheme::Tcp { "net" } else { "http" };
            return Err(ConnectFailure::Denied(format!(
                "{target}: the plugin's manifest doesn't ask for it: a line of [ask] {kind} must cover it"
            )));
        }
        let mut granted = self.grant.iter().filter(covers).peekable();
        if granted.peek().is_none() {
            return Err(self.missing(target, ""));
        }
        if let Host::Domain(name) = &target.host
            && METADATA_NAMES.contains(&name.as_str())
            && !granted.any(|pattern| matches!(pattern.host, HostPattern::Name(_)))
        {
            return Err(self.missing(target, " (a cloud metadata name must be granted exactly)"));
        }
        Ok(())
    }

    /// Judges a peer by name and by every address it resolves to; answers the addresses to connect to.
    pub async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, ConnectFailure> {
        self.admit(target)?;
        let mut addresses = match &target.host {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) => {
                let unresolved = |why| ConnectFailure::Resolve(format!("{name}: {why}"));
                let found = self.names.find(name).await.map_err(unresolved)?;
                if found.is_empty() {
                    return Err(ConnectFailure::Resolve(format!("{name}: no addresses")));
                }
                if found.len() > ADDRESSES_MAX {
                    return Err(ConnectFailure::Resolve(format!(
                        "{name}: {} addresses, at most {ADDRESSES_MAX} are looked at",
                        found.len()
                    )));
                }
                found
            }
        };
        for address in &mut addresses {
            *address = address.to_canonical();
        }
        if let Some(blocked) = addresses.iter().find(|address| !self.reaches(target, **address)) {
            return Err(ConnectFailure::Denied(self.blocked(target, *blocked)));
        }
        let addresses: Vec<_> = addresses.into_iter().map(|address| SocketAddr::new(address, target.port)).collect();
        let own = |address: &&SocketAddr| !self.has_exactly(target, address.ip()) && self.own.take(**address);
        if let Some(own) = addresses.iter().find(own) {
            return Err(ConnectFailure::Denied(format!(
                "{target} leads to {own}, where this host itself listens: if that is meant, add \"{}://{own}\" to {} of {}",
                target.scheme.as_str(),
                self.list,
                self.endpoint
            )));
        }
        Ok(addresses)
    }

    /// Why an address isn't reached, and the line that would let it be.
    fn blocked(&self, target: &Target, address: IpAddr) -> String {
        let class = classify(address);
        if class == AddressClass::Never {
            return format!("{target} leads to {address}, which is no peer");
        }
        let line = format!("{}://{}", target.scheme.as_str(), SocketAddr::new(address, target.port));
        let (list, endpoint) = (self.list, &self.endpoint);
        let inside = matches!(class, AddressClass::Loopback | AddressClass::Private);
        let or = match &target.host {
            Host::Domain(_) if inside => {
                format!(", or \"internal:{target}\", or `allow.internal = true` for all exact names")
            }
            _ => String::new(),
        };
        format!(
            "{target} leads to {address}, a {} address, which a name or a wildcard doesn't reach: if that is meant, add \
             \"{line}\" (or its network) to {list} of {endpoint}{or}",
            class.as_str()
        )
    }

    /// Whether a grant has just this peer, by its address or as `localhost`: any other name leads where its owner likes.
    fn has_exactly(&self, target: &Target, address: IpAddr) -> bool {
        self.grant.iter().any(|pattern| {
            pattern.port == PortPattern::Port(target.port)
                && pattern.scheme == target.scheme
                && match &pattern.host {
                    HostPattern::Name(name) => name == "localhost" && pattern.covers_host(&target.host),
                    HostPattern::Net(net) => net.prefix_len() == net.max_prefix_len() && net.contains(&address),
                    HostPattern::Any | HostPattern::Under(_) => false,
                }
        })
    }

    /// Whether one address may be connected to for `target`.
    fn reaches(&self, target: &Target, address: IpAddr) -> bool {
        let class = classify(address);
        if class == AddressClass::Never {
            return false;
        }
        self.grant.iter().filter(|pattern| pattern.covers_port(target.scheme, target.port)).any(|pattern| {
            let named = pattern.covers_host(&target.host);
            match &pattern.host {
                HostPattern::Any | HostPattern::Under(_) => named && class == AddressClass::Global,
                HostPattern::Name(name) => {
                    let internal = self.internal || pattern.internal;
                    named
                        && match class {
                            AddressClass::Global => true,
                            AddressClass::Loopback => internal || name == "localhost",
                            AddressClass::Private => internal,
                            _ => false,
                        }
                }
                HostPattern::Net(net) => {
                    net.contains(&address)
                        && (class != AddressClass::Metadata || net.prefix_len() == net.max_prefix_len())
                }
            }
        })
    }

    /// Connects to one of the checked addresses, in order, within `time`. TCP_NODELAY is set.
    pub async fn connect(&self, target: &Target, time: Duration) -> Result<TcpStream, ConnectFailure> {
        let deadline = Instant::now() + time;
        let addresses = timeout_at(deadline, self.addresses(target)).await.map_err(|_| ConnectFailure::Timeout)??;
        let mut last = ConnectFailure::Timeout;
        let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        for address in addresses {
            // A dead first address must not use up the time of the others.
            let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
            left = left.saturating_sub(1);
            last = match tokio::time::timeout(share, self.resolver.connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true).map_err(|error| ConnectFailure::Other(error.to_string()))?;
                    return Ok(stream);
                }
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => ConnectFailure::Refused,
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::TimedOut => ConnectFailure::Timeout,
                Ok(Err(error)) => ConnectFailure::Other(error.to_string()),
                Err(_) => ConnectFailure::Timeout,
            };
        }
        Err(last)
    }

    fn missing(&self, target: &Target, why: &str) -> ConnectFailure {
        ConnectFailure::Denied(format!(
            "{target} isn't granted{why}: add \"{target}\" to {} of {}",
            self.list, self.endpoint
        ))
    }
}
