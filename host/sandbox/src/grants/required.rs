//! What a plugin can't do without, and whether it is granted: found out when it is loaded, not at its first call.
//!
//! A manifest marks such asks with `required`. A required ask for peers counts as granted when each peer it names exactly is
//! covered by a grant, and, where it uses a wildcard or a network, when any peer of its kind is granted: which one, only
//! the plugin's configuration says.

use std::fmt;
use std::net::IpAddr;

use url::Host;
use waybill_core::endpoint::Grants;

use super::{HostPattern, Pattern, PortPattern, peers};
use crate::error::SandboxError;
use crate::manifest::{Ask, Manifest};

/// Something that a manifest marks as required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The peers of `ask.net`.
    Net,
    /// The peers of `ask.http`.
    Http,
    Kv,
    Secret(String),
}

impl Need {
    /// Reads `net`, `http`, `kv` or `secrets.NAME`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "net" => Self::Net,
            "http" => Self::Http,
            "kv" => Self::Kv,
            _ => Self::Secret(text.strip_prefix("secrets.")?.to_owned()),
        })
    }

    /// Whether the manifest asks for it at all.
    pub(crate) fn is_asked(&self, ask: &Ask) -> bool {
        match self {
            Self::Net => !ask.net.is_empty(),
            Self::Http => !ask.http.is_empty(),
            Self::Kv => ask.kv,
            Self::Secret(name) => ask.secrets.contains(name),
        }
    }

    /// The line of the operator's section that grants it; none if it is granted.
    fn missing_line(&self, ask: &Ask, grants: &Grants, granted: &[Pattern]) -> Option<String> {
        match self {
            Self::Net => missing_peers("net", &ask.net, granted),
            Self::Http => missing_peers("http", &ask.http, granted),
            Self::Kv => grants.kv.is_none().then(|| "allow.kv = \"1MiB\"".to_owned()),
            Self::Secret(name) => {
                let variable = name.to_uppercase().replace('-', "_");
                (!grants.secrets.contains_key(name)).then(|| format!("secrets.{name} = \"env:{variable}\""))
            }
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net => f.write_str("net"),
            Self::Http => f.write_str("http"),
            Self::Kv => f.write_str("kv"),
            Self::Secret(name) => write!(f, "secrets.{name}"),
        }
    }
}

fn missing_peers(key: &str, asked: &[Pattern], granted: &[Pattern]) -> Option<String> {
    let any = |pattern: &Pattern| granted.iter().any(|grant| grant.is_stream() == pattern.is_stream());
    let mut missing = Vec::new();
    for pattern in asked {
        match exact(pattern) {
            Some((host, port)) => {
                let covers = |grant: &Pattern| grant.covers_port(pattern.scheme, port) && grant.covers_host(&host);
                if !granted.iter().any(covers) {
                    missing.push(pattern.to_string());
                }
            }
            None if any(pattern) => {}
            // The operator knows the name; one example of a scheme is enough.
            None => missing.push(format!("{}://HOST:PORT", pattern.scheme.as_str())),
        }
    }
    missing.dedup();
    if missing.iter().any(|peer| peer.starts_with("https://HOST")) {
        missing.retain(|peer| !peer.starts_with("http://HOST"));
    }
    let list: Vec<String> = missing.iter().map(|peer| format!("{peer:?}")).collect();
    (!list.is_empty()).then(|| format!("allow.{key} = [{}]", list.join(", ")))
}

/// The one peer of a pattern, if it has only one.
fn exact(pattern: &Pattern) -> Option<(Host<String>, u16)> {
    let PortPattern::Port(port) = pattern.port else { return None };
    let host = match &pattern.host {
        HostPattern::Name(name) => Host::Domain(name.clone()),
        HostPattern::Net(net) if net.prefix_len() == net.max_prefix_len() => match net.addr() {
            IpAddr::V4(address) => Host::Ipv4(address),
            IpAddr::V6(address) => Host::Ipv6(address),
        },
        _ => return None,
    };
    Some((host, port))
}

/// Refuses grants that can't be read, and to use a plugin without what it can't do without, or with more instances than it can
/// run. `section` is the one of `waybill.toml` that grants, e.g. `transport.orders`; the error has the lines to add to it.
pub fn check_grants(manifest: &Manifest, section: &str, grants: &Grants, instances: u32) -> Result<(), SandboxError> {
    let ask = &manifest.ask;
    let granted = peers(grants)?;
    let (needs, lines): (Vec<String>, Vec<String>) = ask
        .required
        .iter()
        .filter_map(|need| Some((need.to_string(), need.missing_line(ask, grants, &granted)?)))
        .unzip();
    if !lines.is_empty() {
        return Err(SandboxError::GrantMissing {
            plugin: manifest.name.clone(),
            section: section.to_owned(),
            missing: needs.join(", "),
            lines: lines.join("\n    "),
        });
    }
    match ask.instances {
        Some(most) if instances > most => {
            Err(SandboxError::Instances { plugin: manifest.name.clone(), section: section.to_owned(), instances, most })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn manifest(ask: &str) -> Manifest {
        let text =
            format!("name='x'\nversion='1.0.0'\nworld='transport'\ncontract='0.1.0'\ndescription='x'\n[ask]\n{ask}");
        Manifest::parse(text.as_bytes()).unwrap()
    }

    fn refusal(ask: &str, peers: &[&str], secrets: &[&str]) -> String {
        let mut grants = Grants::none().allow(peers.iter().copied());
        grants.secrets = secrets.iter().map(|name| ((*name).to_owned(), "env:X".to_owned())).collect();
        match check_grants(&manifest(ask), "transport.orders", &grants, 1) {
            Ok(()) => "granted".to_owned(),
            Err(error) => {
                assert_eq!(error.code().as_str(), "PLUGIN.GRANT_MISSING");
                error.to_string()
            }
        }
    }

    #[test]
    fn the_lines_to_add_are_told() {
        let ask = "net=['tcp://*:*']\nsecrets=['api-token','other']\nfeatures=['kv']\n\
                   required=['net','kv','secrets.api-token']";
        let all = refusal(ask, &[], &[]);
        for line in [
            "[transport.orders]\n",
            "allow.net = [\"tcp://HOST:PORT\"]",
            "allow.kv = \"1MiB\"",
            "secrets.api-token = \"env:API_TOKEN\"",
        ] {
            assert!(all.contains(line), "{all}");
        }
        assert!(!all.contains("other"), "{all}");
        let rest = refusal(ask, &["tcp://broker:5672"], &["api-token"]);
        assert!(rest.contains("without kv,") && !rest.contains("allow.net"), "{rest}");
    }

    #[test]
    fn a_peer_named_exactly_must_be_granted_itself() {
        let ask = "http=['https://api.example.com','https://*.eu.example.com']\nrequired=['http']";
        assert!(refusal(ask, &["https://other"], &[]).contains("allow.http = [\"https://api.example.com\"]"));
        assert_eq!(refusal(ask, &["https://api.example.com"], &[]), "granted");
        assert_eq!(refusal(ask, &["https://*.example.com"], &[]), "granted");
        assert!(refusal(ask, &["http://api.example.com"], &[]).contains("https://api.example.com"));
        let both = refusal("http=['http://*:*','https://*:*']\nrequired=['http']", &["tcp://x:1"], &[]);
        assert!(both.contains("allow.http = [\"https://HOST:PORT\"]"), "{both}");
    }

    #[test]
    fn what_isnt_required_may_be_withheld() {
        assert_eq!(refusal("net=['tcp://*:*']\nsecrets=['token']\nfeatures=['kv']", &[], &[]), "granted");
    }

    #[test]
    fn more_instances_than_it_runs_are_refused() {
        let manifest = manifest("instances=1");
        assert!(check_grants(&manifest, "transport.x", &Grants::none(), 1).is_ok());
        let error = check_grants(&manifest, "transport.x", &Grants::none(), 3).unwrap_err();
        assert_eq!(error.code().as_str(), "PLUGIN.INSTANCES");
        assert!(error.to_string().contains("write instances = 1"), "{error}");
    }
}
