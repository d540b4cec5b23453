//! What brokers say, through the readers of the bundled plugins: their sources, since a component can't be linked natively.
#![allow(dead_code, unreachable_pub, unused_imports, clippy::indexing_slicing)]

#[path = "../../../plugins/rabbitmq-wire/src/codec/mod.rs"]
mod amqp;
#[path = "../../../plugins/nats-wire/src/codec.rs"]
mod nats;
#[path = "../../../plugins/redis-wire/src/resp.rs"]
mod resp;

use crate::Target;
use crate::mqtt::{Version, packet, property};

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "resp", read: resp_stream, seeds: resps },
    Target { name: "nats", read: nats_stream, seeds: operations },
    Target { name: "amqp", read: amqp_stream, seeds: frames },
    Target { name: "mqtt", read: mqtt_stream, seeds: packets },
];

/// Takes one thing after the other; each takes a part of what is there, and never more.
fn drain<T, E>(mut bytes: &[u8], next: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>) {
    while let Ok(Some((_, taken))) = next(bytes) {
        assert!((1..=bytes.len()).contains(&taken), "{taken} of {} bytes", bytes.len());
        bytes = &bytes[taken..];
    }
}

fn resp_stream(bytes: &[u8]) {
    drain(bytes, |bytes| resp::next(bytes).map(|found| found.map(|(_, taken)| ((), taken))));
}

fn nats_stream(bytes: &[u8]) {
    drain(bytes, |bytes| {
        nats::next(bytes).map(|found| found.map(|(operation, taken)| (nats_message(&operation), taken)))
    });
}

/// What the plugins read of a message.
fn nats_message(operation: &nats::Operation<'_>) {
    if let nats::Operation::Message(message) = operation {
        let _ = (message.status(), message.status_text(), message.header_lines().count());
    }
}

fn mqtt_stream(bytes: &[u8]) {
    for version in [Version::V311, Version::V5] {
        drain(bytes, |bytes| {
            packet::next(bytes, version).map(|found| found.map(|frame| (mqtt_packet(&frame.packet), frame.here)))
        });
    }
}

/// What the plugins read of a packet.
fn mqtt_packet(packet: &packet::Packet<'_>) {
    if let packet::Packet::Message(packet::Message { properties, .. })
    | packet::Packet::Connected(packet::Connected { properties, .. }) = packet
    {
        let _ = property::Properties::new(properties).count();
    }
}

fn amqp_stream(bytes: &[u8]) {
    drain(bytes, |bytes| {
        amqp::next(bytes).map(|found| found.map(|(frame, taken)| (amqp_payload(frame.payload), taken)))
    });
}

/// What the plugin reads of a payload, whatever kind of frame it is of.
fn amqp_payload(payload: &[u8]) {
    match amqp::method(payload) {
        Ok(amqp::Method::Start { properties, .. }) => {
            let _ = properties.text("product");
            if let Some(amqp::Value::Table(capabilities)) = properties.get("capabilities") {
                let _ = capabilities.get("publisher_confirms");
            }
        }
        Ok(amqp::Method::Close(closing) | amqp::Method::ChannelClose(closing) | amqp::Method::Return(closing)) => {
            let _ = closing.text();
        }
        _ => {}
    }
    if let Ok(amqp::Content { headers: Some(headers), .. }) = amqp::content(payload) {
        let _ = (headers.get("x-tenant"), headers.entries().count());
    }
}

fn resps() -> Vec<Vec<u8>> {
    let replies: [&[u8]; 4] = [
        b"+OK\r\n:12\r\n$5\r\nhello\r\n$-1\r\n",
        b"*2\r\n$3\r\nkey\r\n*1\r\n:1\r\n",
        b"-NOAUTH Authentication required.\r\n",
        b"%1\r\n+server\r\n+redis\r\n#t\r\n,1.5\r\n_\r\n=7\r\ntxt:abc\r\n",
    ];
    replies.map(<[u8]>::to_vec).to_vec()
}

fn operations() -> Vec<Vec<u8>> {
    let lines: [&[u8]; 4] = [
        b"INFO {\"server_id\":\"N\",\"headers\":true}\r\nPING\r\n+OK\r\n-ERR 'Authorization Violation'\r\n",
        b"MSG _INBOX.1 1 5\r\nhello\r\n",
        b"HMSG _INBOX.1 1 30 30\r\nNATS/1.0 503 No Responders\r\n\r\n\r\n",
        b"HMSG orders.a 1 $JS.ACK.S.C.1.2.3.4.5 34 36\r\nNATS/1.0\r\nNats-Msg-Id: message\r\n\r\n{}\r\n",
    ];
    lines.map(<[u8]>::to_vec).to_vec()
}

fn packets() -> Vec<Vec<u8>> {
    let packets: [&[u8]; 4] = [
        b"\x20\x06\x01\0\x03\x21\0\x14\xd0\0\xe0\x01\x8b",
        b"\x40\x02\0\x07\x40\x09\0\x07\x87\x05\x1f\0\x02no",
        b"\x90\x05\0\x01\0\x01\x87\xb0\x04\0\x02\0\0",
        b"\x3b\x0f\0\x01a\0\x07\x07\x26\0\x01k\0\x01vhi\x30\x05\0\x01ahi",
    ];
    packets.map(<[u8]>::to_vec).to_vec()
}

fn frames() -> Vec<Vec<u8>> {
    let heartbeat = vec![8, 0, 0, 0, 0, 0, 0, 0xce];
    // basic.ack of delivery 1, not multiple.
    let ack = vec![1, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xce];
    let product = b"\x07productS\0\0\0\x08RabbitMQ".as_slice();
    let capabilities = b"\x0ccapabilitiesF\0\0\0\x15\x12publisher_confirmst\x01".as_slice();
    let others = b"\x01aI\0\0\0\x07\x01bl\0\0\0\0\0\0\0\x07\x01cA\0\0\0\x02t\x01\x01dV".as_slice();
    let start = [
        b"\0\x0a\0\x0a\0\x09".as_slice(),
        &counted(&[product, others, capabilities].concat()),
        &counted(b"PLAIN AMQPLAIN"),
        &counted(b"en_US"),
    ];
    let tune = b"\0\x0a\0\x1e\x07\xff\0\x02\0\0\0\x3c".as_slice();
    let blocked = b"\0\x0a\0\x3c\x0dlow on memory".as_slice();
    let close = b"\0\x0a\0\x32\x01\x40\x11CONNECTION_FORCED\0\0\0\0".as_slice();
    // basic.return, then the header of 5 bytes with content type, headers and message id.
    let returned = b"\0\x3c\0\x32\x01\x38\x08NO_ROUTE\0\0".as_slice();
    let header = [
        b"\0\x3c\0\0\0\0\0\0\0\0\0\x05\xa0\x80\x0atext/plain".as_slice(),
        &counted(b"\x08x-tenantS\0\0\0\x04acme"),
        b"\x02m1",
    ];
    vec![
        heartbeat.clone(),
        ack.clone(),
        [heartbeat, ack].concat(),
        [frame(1, &start.concat()), frame(1, tune)].concat(),
        [frame(1, blocked), frame(1, close)].concat(),
        [frame(1, returned), frame(2, &header.concat()), frame(3, b"hello")].concat(),
    ]
}

/// A frame of this kind on channel 1.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [[kind, 0, 1].as_slice(), &counted(payload), &[0xce]].concat()
}

/// Bytes with four bytes of their length before them.
fn counted(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a few bytes");
    [length.to_be_bytes().as_slice(), bytes].concat()
}
