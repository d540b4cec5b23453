//! What brokers say, through the readers of the bundled plugins: their sources, since a component can't be linked natively.
#![allow(dead_code, unreachable_pub, clippy::indexing_slicing)]

#[path = "../../../plugins/rabbitmq/src/codec.rs"]
mod amqp;
#[path = "../../../plugins/nats/src/codec.rs"]
mod nats;
#[path = "../../../plugins/redis/src/resp.rs"]
mod resp;

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "resp", read: resp_stream, seeds: resps },
    Target { name: "nats", read: nats_stream, seeds: operations },
    Target { name: "amqp", read: amqp_stream, seeds: frames },
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
    drain(bytes, |bytes| nats::next(bytes).map(|found| found.map(|(_, taken)| ((), taken))));
}

fn amqp_stream(bytes: &[u8]) {
    drain(bytes, |bytes| amqp::next(bytes).map(|found| found.map(|(_, taken)| ((), taken))));
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
    let lines: [&[u8]; 3] = [
        b"INFO {\"server_id\":\"N\",\"headers\":true}\r\nPING\r\n+OK\r\n-ERR 'Authorization Violation'\r\n",
        b"MSG _INBOX.1 1 5\r\nhello\r\n",
        b"HMSG _INBOX.1 1 30 30\r\nNATS/1.0 503 No Responders\r\n\r\n\r\n",
    ];
    lines.map(<[u8]>::to_vec).to_vec()
}

fn frames() -> Vec<Vec<u8>> {
    let heartbeat = vec![8, 0, 0, 0, 0, 0, 0, 0xce];
    // basic.ack of delivery 1, not multiple.
    let ack = vec![1, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xce];
    vec![heartbeat.clone(), ack.clone(), [heartbeat, ack].concat()]
}
