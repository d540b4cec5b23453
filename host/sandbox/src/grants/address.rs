//! What kind of address it is: the base of the guard against requests to the inside (SSRF).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// Global unicast: the only kind that a wildcard reaches.
    Global,
    Loopback,
    /// Private and shared networks (RFC 1918, RFC 6598, unique local).
    Private,
    LinkLocal,
    /// Where clouds serve instance credentials.
    Metadata,
    /// Documentation, benchmarking, future use, and what carries another address inside (6to4, NAT64, Teredo).
    Special,
    /// Unspecified, multicast, broadcast: never a peer.
    Never,
}

impl AddressClass {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Special => "special-purpose",
            Self::Never => "unusable",
        }
    }
}

/// Instance metadata and wire servers of the clouds: AWS, GCP, Azure, OpenStack (one address), AWS ECS and EKS, Azure's wire
/// server, Alibaba, Oracle.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same over IPv6: AWS, AWS EKS, GCP.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// Names under which clouds serve instance metadata.
pub(super) const METADATA_NAMES: [&str; 4] =
    ["metadata.google.internal", "metadata", "instance-data", "instance-data.ec2.internal"];

/// The kind of an address; an IPv4-mapped IPv6 address is judged as the IPv4 address it is.
pub fn classify(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(v4) => classify_v4(v4),
        IpAddr::V6(v6) => classify_v6(v6),
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    if METADATA_V4.contains(&address) {
        return AddressClass::Metadata;
    }
    match address.octets() {
        [0, ..] | [224..=239, ..] | [255, 255, 255, 255] => AddressClass::Never,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => AddressClass::Private,
        [169, 254, ..] => AddressClass::LinkLocal,
        // Protocol assignments, three documentation networks, 6to4 relays, benchmarking, future use.
        [192, 0, 0 | 2, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..]
        | [240..=255, ..] => AddressClass::Special,
        _ => AddressClass::Global,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    if METADATA_V6.contains(&address) {
        return AddressClass::Metadata;
    }
    if address.is_loopback() {
        return AddressClass::Loopback;
    }
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Never,
        [first, ..] if first & 0xff00 == 0xff00 => AddressClass::Never,
        [first, ..] if first & 0xfe00 == 0xfc00 => AddressClass::Private,
        [first, ..] if first & 0xff80 == 0xfe80 => AddressClass::LinkLocal,
        // IETF protocol assignments with Teredo and ORCHID (2001::/23), documentation, 6to4.
        [0x2001, second, ..] if second < 0x0200 => AddressClass::Special,
        [0x2001, 0x0db8, ..] | [0x2002, ..] => AddressClass::Special,
        [0x3fff, second, ..] if second & 0xf000 == 0 => AddressClass::Special,
        // 2000::/3 is the only global unicast there is; the rest (NAT64, discard, segment routing, IPv4-compatible) isn't.
        [first, ..] if first & 0xe000 == 0x2000 => AddressClass::Global,
        _ => AddressClass::Special,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_kind_of_address_is_recognised() {
        use AddressClass::{Global, LinkLocal, Loopback, Metadata, Never, Private, Special};
        let table = [
            ("1.1.1.1", Global),
            ("8.8.8.8", Global),
            ("99.255.255.255", Global),
            ("100.63.255.255", Global),
            ("172.15.0.1", Global),
            ("172.32.0.1", Global),
            ("192.0.1.1", Global),
            ("198.17.0.1", Global),
            ("198.20.0.1", Global),
            ("223.255.255.255", Global),
            ("0.0.0.0", Never),
            ("0.1.2.3", Never),
            ("224.0.0.1", Never),
            ("239.255.255.250", Never),
            ("255.255.255.255", Never),
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("100.64.0.1", Private),
            ("100.127.255.255", Private),
            ("169.254.1.1", LinkLocal),
            ("169.254.169.254", Metadata),
            ("169.254.170.2", Metadata),
            ("168.63.129.16", Metadata),
            ("100.100.100.200", Metadata),
            ("192.0.0.192", Metadata),
            ("192.0.0.1", Special),
            ("192.0.2.1", Special),
            ("192.88.99.1", Special),
            ("198.18.0.1", Special),
            ("198.19.255.255", Special),
            ("198.51.100.1", Special),
            ("203.0.113.1", Special),
            ("240.0.0.1", Special),
            ("::", Never),
            ("ff02::1", Never),
            ("::1", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("::ffff:10.1.2.3", Private),
            ("::ffff:169.254.169.254", Metadata),
            ("::ffff:8.8.8.8", Global),
            ("::127.0.0.1", Special),
            ("64:ff9b::7f00:1", Special),
            ("64:ff9b:1::a00:1", Special),
            ("100::1", Special),
            ("fc00::1", Private),
            ("fd12:3456::1", Private),
            ("fd00:ec2::254", Metadata),
            ("fd20:ce::254", Metadata),
            ("fe80::1", LinkLocal),
            ("fec0::1", LinkLocal),
            ("2001::1", Special),
            ("2001:db8::1", Special),
            ("2002:7f00:1::", Special),
            ("3fff::1", Special),
            ("5f00::1", Special),
            ("2606:4700::1111", Global),
            ("2a00:1450::1", Global),
            ("2001:4860:4860::8888", Global),
        ];
        for (text, class) in table {
            assert_eq!(classify(text.parse().unwrap()), class, "{text}");
        }
    }
}
