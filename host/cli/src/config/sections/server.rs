//! `[server]` and `[server.tls]`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use waybill_server::limits::Limits;
use waybill_server::listen::is_loopback;

use super::SECOND;
use crate::config::kinds::{Set, beside};
use crate::config::model::{ServerSettings, TlsSettings};
use crate::config::problem::{Origin, Problem};
use crate::config::reader::{Reader, Section};

/// Address that `serve` listens on when nobody says otherwise.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7070";
/// Path of the setting that says that a proxy is in front.
const BEHIND_PROXY: &str = "server.behind_tls_proxy";
/// One peer has one in so many of all connections.
const PEER_SHARE: u64 = 4;

/// Reads `[server]`; the second value tells where `listen` comes from.
pub fn server(mut section: Section<'_, '_>, file: &Path) -> (ServerSettings, Origin) {
    let normal = Limits::default();
    let written = section.text("listen", "an address with a port, e.g. \"127.0.0.1:7070\"", LISTEN_DEFAULT);
    let fallback = SocketAddr::from(([127, 0, 0, 1], 7070));
    let text = written.value.replacen("localhost:", "127.0.0.1:", 1);
    let listen = text.parse().unwrap_or_else(|_| {
        section.refuse("listen", &written, "it takes an IP address and a port, e.g. 127.0.0.1:7070 or [::1]:7070");
        fallback
    });
    let behind_tls_proxy = section.boolean("behind_tls_proxy", false);
    let cors_origins = cors_origins(&mut section);
    let max_connections = section.integer("max_connections", 4096, 1..=1_000_000);
    let of_peer = section.optional_integer("max_connections_per_peer", 1..=1_000_000);
    // Behind a proxy there is only one peer, and it speaks for all.
    let share = if behind_tls_proxy { max_connections } else { (max_connections / PEER_SHARE).max(1) };
    let settings = ServerSettings {
        listen,
        behind_tls_proxy,
        cors_origins,
        tls: tls(section.sub("tls"), file),
        request_timeout: section.duration("request_timeout", Duration::from_secs(60), SECOND),
        idle_timeout: section.duration("idle_timeout", normal.idle_timeout, SECOND),
        write_timeout: section.duration("write_timeout", normal.write_timeout, SECOND),
        max_requests: section.integer("max_requests", 1024, 1..=1_000_000),
        max_connections,
        max_connections_per_peer: of_peer.unwrap_or(share),
        drain_timeout: section.duration("drain_timeout", Duration::from_secs(30), Duration::ZERO),
        watch: section.boolean("watch", false),
    };
    section.done();
    (settings, written.origin)
}

/// Origins as browsers write them: what is written otherwise would never match.
fn cors_origins(section: &mut Section<'_, '_>) -> Vec<String> {
    let written = section.texts("cors_origins", "an array of origins, e.g. [\"https://shop.example\"]", &[]);
    for set in &written {
        let name = set.value.strip_prefix("https://").or_else(|| set.value.strip_prefix("http://"));
        let is_origin = name.is_some_and(|name| {
            !name.is_empty()
                && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b':' | b'[' | b']'))
        });
        if !is_origin {
            section.refuse(
                "cors_origins",
                set,
                "it takes scheme, name and port as browsers write them, in small letters and without a slash at the end",
            );
        }
    }
    written.into_iter().map(|set| set.value).collect()
}

fn tls(mut section: Section<'_, '_>, file: &Path) -> Option<TlsSettings> {
    let cert = section.optional_text("cert", "a file with the certificate chain, in PEM");
    let key = section.optional_text("key", "a file with its private key, in PEM");
    if let (None, Some(_)) | (Some(_), None) = (&cert, &key) {
        let missing = if cert.is_none() { "cert" } else { "key" };
        let problem = Problem::Missing {
            section: section.heading(),
            key: missing.into(),
            fix: format!("write {missing} = \"<path>\": a certificate and its key belong together"),
        };
        let at = section.at.clone();
        section.problem_at(problem, at);
    }
    let key = key.map(|key| {
        let path = place(file, key);
        section.warn_if_open("key", &path);
        path
    });
    section.done();
    Some(TlsSettings { cert: place(file, cert?), key: key? })
}

pub(super) fn place(file: &Path, set: Set<String>) -> PathBuf {
    match set {
        Set { value, origin: Origin::File { .. } } => beside(file, &value),
        Set { value, .. } => value.into(),
    }
}

/// Whether others may reach the address: only if they are asked for a token, and only if nobody on the way can read that. Through a
/// proxy they reach loopback, too.
pub fn check_listen(reader: &mut Reader<'_>, server: &ServerSettings, asks: bool, origin: Origin) {
    if is_loopback(server.listen.ip()) {
        if server.behind_tls_proxy && !asks {
            let shown = reader.shown.iter().find(|shown| shown.path == BEHIND_PROXY);
            let origin = shown.map_or(origin, |shown| shown.origin.clone());
            reader.problem(Problem::OpenProxy, origin);
        }
        return;
    }
    let listen = server.listen.to_string();
    if !asks {
        reader.problem(Problem::OpenListen { listen }, origin);
    } else if server.tls.is_none() && !server.behind_tls_proxy {
        reader.problem(Problem::ClearText { listen }, origin);
    }
}
