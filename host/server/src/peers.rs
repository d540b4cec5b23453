//! Connections by address, so that one peer can't have them all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// Bits of an IPv6 address that tell networks apart: who has one address has all that share them.
const NETWORK: u128 = !0 << 64;

/// Open connections by peer.
pub(crate) struct Peers {
    each_max: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl Peers {
    /// So many for each.
    pub(crate) fn new(each_max: usize) -> Arc<Self> {
        Arc::new(Self { each_max, open: Mutex::default() })
    }

    /// A place among the peer's own; none = it has as many as it may.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<PeerPlace> {
        let peer = network(address);
        let mut open = self.open.lock();
        let count = open.entry(peer).or_default();
        if *count >= self.each_max {
            return None;
        }
        *count += 1;
        Some(PeerPlace { peers: Arc::clone(self), peer })
    }
}

/// One connection of a peer, as long as it is open.
pub(crate) struct PeerPlace {
    peers: Arc<Peers>,
    peer: IpAddr,
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let mut open = self.peers.open.lock();
        if let Some(count) = open.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.peer);
            }
        }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_its_own_bound() {
        let peers = Peers::new(2);
        let enter = |text: &str| peers.enter(text.parse().unwrap());
        let (first, second) = (enter("10.0.0.1"), enter("::ffff:10.0.0.1"));
        assert!(first.is_some() && second.is_some() && enter("10.0.0.1").is_none());
        assert!(enter("10.0.0.2").is_some());
        drop(first);
        assert!(enter("10.0.0.1").is_some());
        drop(second);
        assert!(peers.open.lock().is_empty(), "who is gone is forgotten");
        let _network = (enter("2001:db8::1"), enter("2001:db8::2"));
        assert!(enter("2001:db8::3").is_none() && enter("2001:db8:0:1::1").is_some());
    }
}
