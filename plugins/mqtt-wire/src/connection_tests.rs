//! Tests of what a server says of itself at a login.
#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use waybill_plugin::transport::ErrorKind;

fn connected(reason: u8, is_older: bool, properties: &[u8]) -> Packet<'_> {
    Packet::Connected(Connected { has_session: false, reason, is_older, properties })
}

#[test]
fn the_server_s_limits_are_taken() {
    let packet = connected(0, false, b"\x21\0\x14\x27\0\x01\0\0\x25\0\x2a\0\x13\0\x1e\x24\0");
    let Ok(Answer::LetIn(limits)) = let_in(&packet, Version::V5) else { panic!() };
    assert_eq!((limits.receive_maximum, limits.packet), (20, 65_536));
    assert_eq!((limits.retains, limits.shares, limits.has_acknowledgements), (false, false, false));
    assert_eq!(limits.keep_alive, Some(30));
    let none = connected(0, false, b"\x27\0\0\0\0");
    let Ok(Answer::LetIn(limits)) = let_in(&none, Version::V5) else { panic!() };
    assert_eq!(limits.packet, write::BODY_BYTES_MAX, "none would be small enough");
    let Ok(Answer::LetIn(limits)) = let_in(&connected(0, true, &[]), Version::V311) else { panic!() };
    assert_eq!((limits.receive_maximum, limits.retains, limits.has_acknowledgements), (u16::MAX, true, true));
}

#[test]
fn a_server_that_knows_only_the_older_version_is_told_from_one_that_refuses() {
    for (packet, version, is_older) in [
        (connected(1, true, &[]), Version::V5, true),
        (connected(0x84, false, &[]), Version::V5, true),
        (connected(0, true, &[]), Version::V5, true),
        // Short, and yet with a reason code of version 5.
        (connected(0x84, true, &[]), Version::V5, true),
        (connected(0x87, true, &[]), Version::V5, false),
    ] {
        assert_eq!(matches!(let_in(&packet, version), Ok(Answer::Older(_))), is_older);
    }
    let refused = let_in(&connected(4, true, &[]), Version::V311).err().unwrap();
    assert_eq!((refused.kind, refused.fault.code.as_str()), (ErrorKind::Denied, "MQTT.AUTH"));
    let refused = let_in(&connected(0x87, true, &[]), Version::V5).err().unwrap();
    assert_eq!((refused.kind, refused.fault.code.as_str()), (ErrorKind::Denied, "MQTT.AUTH"));
    let refused = let_in(&connected(0x89, false, b"\x1f\0\x04soon"), Version::V5).err().unwrap();
    assert!(refused.kind == ErrorKind::Unavailable && refused.fault.reason.ends_with("it says: soon"));
    assert_eq!(let_in(&Packet::Alive, Version::V5).err().unwrap().fault.code, "MQTT.PROTOCOL");
}
