//! Where this host itself listens: no plugin and no step of a saga reaches that by a wildcard, a network or a name that somebody owns.
//!
//! Whoever may send a message may otherwise speak to the API as a program on this machine.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use parking_lot::RwLock;

/// Addresses on which the host takes connections. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct OwnListeners(Arc<RwLock<Vec<SocketAddr>>>);

impl OwnListeners {
    /// Notes one, with the port in force.
    pub fn add(&self, address: SocketAddr) {
        self.0.write().push(address);
    }

    /// Whether a connection to an address would end at this host. What another machine or a port mapping sends back here can't be
    /// told.
    pub(super) fn take(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        self.0.read().iter().filter(|own| own.port() == address.port()).any(|own| match own.ip().to_canonical() {
            any if any.is_unspecified() => ip.is_loopback() || is_of_this_machine(ip),
            own => own == ip,
        })
    }
}

/// Whether an address is one of this machine's: the system would then send from the very same. Nothing is sent.
fn is_of_this_machine(ip: IpAddr) -> bool {
    let any: IpAddr = if ip.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((ip, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip().to_canonical() == ip)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_way_to_a_listener_is_known() {
        let own = OwnListeners::default();
        let takes = |text: &str| own.take(text.parse().unwrap());
        assert!(!takes("127.0.0.1:7070"));
        own.clone().add("127.0.0.1:7070".parse().unwrap());
        assert!(takes("127.0.0.1:7070") && takes("[::ffff:127.0.0.1]:7070"));
        assert!(!takes("127.0.0.1:7071") && !takes("127.0.0.2:7070") && !takes("[::1]:7070"));
        own.add("0.0.0.0:80".parse().unwrap());
        assert!(takes("127.0.0.1:80") && takes("127.9.9.9:80") && takes("[::1]:80"));
        assert!(!takes("93.184.216.34:80") && !takes("127.0.0.1:81"));
    }
}
