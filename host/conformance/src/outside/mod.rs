//! The outside of a plugin: a peer that plays the case's part, behind a [`Switch`] that can go down, fall silent, or cut what
//! is connected.

mod frames;
mod http;
mod line;
mod switch;

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::case::Peer;

pub(crate) use switch::{Mode, Switch};

/// A running outside. Dropping it ends it.
pub(crate) struct Outside {
    /// What the plugin is told as `${peer}`.
    pub(crate) switch: Switch,
    _server: Option<AbortOnDropHandle<()>>,
}

impl Outside {
    /// Starts a case's peer with the switch in front of it.
    pub(crate) async fn start(peer: Option<&Peer>) -> std::io::Result<Self> {
        let (target, server) = match peer {
            None => (None, None),
            Some(Peer::External { address }) => (Some(address.clone()), None),
            Some(Peer::Http { answers }) => {
                let (address, listener) = listen().await?;
                (Some(address.to_string()), Some(tokio::spawn(http::serve(listener, answers.clone()))))
            }
            Some(Peer::Line { greeting, rules }) => {
                let (address, listener) = listen().await?;
                (Some(address.to_string()), Some(tokio::spawn(line::serve(listener, greeting.clone(), rules.clone()))))
            }
            Some(Peer::Bytes { frame, first, greeting, rules }) => {
                let (address, listener) = listen().await?;
                let cut = [first.unwrap_or(*frame), *frame];
                let serving = frames::serve(listener, cut, greeting.clone(), rules.clone());
                (Some(address.to_string()), Some(tokio::spawn(serving)))
            }
        };
        Ok(Self { switch: Switch::start(target).await?, _server: server.map(AbortOnDropHandle::new) })
    }

    pub(crate) fn address(&self) -> String {
        self.switch.address.to_string()
    }
}

async fn listen() -> std::io::Result<(SocketAddr, TcpListener)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    Ok((listener.local_addr()?, listener))
}

/// How often each rule was followed, so that `times` holds over all connections.
pub(crate) struct Uses(parking_lot::Mutex<Vec<u32>>);

impl Uses {
    pub(crate) fn of(rules: usize) -> Self {
        Self(parking_lot::Mutex::new(vec![0; rules]))
    }

    /// Takes one use of a rule; no if there is none left.
    pub(crate) fn take(&self, rule: usize, times: Option<u32>) -> bool {
        let mut uses = self.0.lock();
        let Some(used) = uses.get_mut(rule) else { return false };
        if times.is_some_and(|times| *used >= times) {
            return false;
        }
        *used += 1;
        true
    }
}
