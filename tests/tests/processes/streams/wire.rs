//! What consumers of each broker see of a relayed event: where it is, its key, its headers and its body. Each is read by a client that shares no
//! code with the host, and the body by a reader of protobuf of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use waybill_testkit::{nats, rabbitmq, redis};

use super::support::*;

const STREAM: &str = "task.node.n-1";
const EXCHANGE: &str = "sms.events.v1";

/// An event with everything in it, and one whose operation has no name.
fn appended() -> [Value; 2] {
    let full = json!({
        "event_id": "wire-1", "ts_ms": 1_700_000_000_123_u64, "resource_type": "TASK", "resource_id": "t.17",
        "op": "STATE_TRANSITION", "schema_version": 3, "node_uuid": "n-1", "correlation_id": "req-1", "cause": "health check",
        "headers": { "shop": "eu", "line": "7" }, "content_type": "application/json", "payload_bytes": "eyJuIjoxfQ==",
    });
    let unnamed = json!({
        "event_id": "wire-2", "ts_ms": 1_700_000_000_456_u64, "resource_type": "TASK", "resource_id": "t.17",
        "op": 41, "schema_version": 1,
    });
    [full, unnamed]
}

/// The headers of the source document's list, by the number of the event.
fn headers(seq: usize) -> Vec<(&'static str, &'static str)> {
    let own = match seq {
        1 => ["wire-1", "1", "STATE_TRANSITION", "3", "1700000000123"],
        _ => ["wire-2", "2", "41", "1", "1700000000456"],
    };
    let [id, seq_text, op, version, ts] = own;
    let mut all = vec![
        ("event_id", id),
        ("stream", STREAM),
        ("seq", seq_text),
        ("resource_type", "TASK"),
        ("resource_id", "t.17"),
        ("op", op),
        ("schema_version", version),
        ("ts_ms", ts),
    ];
    if seq == 1 {
        all.extend([("cause", "health check"), ("shop", "eu"), ("line", "7")]);
    }
    all
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn text(text: &str) -> Field {
    Field::Bytes(text.as_bytes().to_vec())
}

/// The fields of a message of protobuf by their numbers, repeated ones in their order.
fn fields(mut bytes: &[u8]) -> BTreeMap<u64, Vec<Field>> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut all: BTreeMap<u64, Vec<Field>> = BTreeMap::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value.to_vec())
            }
            other => panic!("a field of wire type {other}"),
        };
        all.entry(tag >> 3).or_default().push(field);
    }
    all
}

/// The envelope of `events.proto`.
fn check_protobuf(body: &[u8], seq: usize) {
    let all = fields(body);
    let only = |number: u64| match all.get(&number).map(Vec::as_slice) {
        None => None,
        Some([field]) => Some(field.clone()),
        Some(several) => panic!("field {number} is there more than once: {several:?}"),
    };
    let (id, ts, op, version) = match seq {
        1 => ("wire-1", 1_700_000_000_123, 6, 3),
        _ => ("wire-2", 1_700_000_000_456, 41, 1),
    };
    assert_eq!((only(1), only(2)), (Some(text(id)), Some(Field::Number(ts))));
    assert_eq!((only(3), only(4)), (Some(text(STREAM)), Some(Field::Number(seq as u64))));
    assert_eq!((only(5), only(6)), (Some(text("TASK")), Some(text("t.17"))));
    assert_eq!((only(7), only(8)), (Some(Field::Number(op)), Some(Field::Number(version))));
    assert_eq!(only(16), Some(text("default")), "the tenant");
    if seq == 1 {
        assert_eq!((only(9), only(10), only(11)), (Some(text("n-1")), Some(text("req-1")), Some(text("health check"))));
        let headers = all.get(&12).unwrap().iter().map(|entry| match entry {
            Field::Bytes(entry) => {
                let entry = fields(entry);
                (entry[&1][0].clone(), entry[&2][0].clone())
            }
            Field::Number(number) => panic!("{number} among the headers"),
        });
        let headers: Vec<_> = headers.collect();
        assert!(headers.len() == 2 && headers.contains(&(text("shop"), text("eu"))), "{headers:?}");
        assert_eq!((only(13), only(15)), (Some(text("application/json")), Some(text("{\"n\":1}"))));
    }
}

type Received = Arc<Mutex<Vec<(BTreeMap<String, String>, Vec<u8>)>>>;

/// A server that keeps what is posted to it: its request line under an empty name, headers in lower case, and the body.
async fn hooks() -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, received) = (listener.local_addr().unwrap(), Received::default());
    let kept = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(take(BufStream::new(socket), Arc::clone(&kept)));
        }
    });
    (address, received)
}

async fn take(mut socket: BufStream<TcpStream>, received: Received) -> std::io::Result<()> {
    loop {
        let (mut head, mut line) = (BTreeMap::new(), String::new());
        if socket.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        head.insert(String::new(), line.trim_end().to_owned());
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            head.insert(name.to_ascii_lowercase(), value.trim_start().to_owned());
        }
        let length = head.get("content-length").and_then(|length| length.parse().ok()).expect("a length");
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await?;
        received.lock().unwrap().push((head, body));
        socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
        socket.flush().await?;
    }
}

/// Acceptance 8, for the brokers that have a transport. Kafka's and Pulsar's come with theirs.
#[tokio::test(flavor = "multi_thread")]
async fn consumers_of_every_broker_see_the_headers_the_key_and_the_body_of_the_table() {
    let (nats, redis, rabbit) = (
        nats::Server::start().await.unwrap(),
        redis::Server::start().await.unwrap(),
        rabbitmq::Server::start().await.unwrap(),
    );
    let (hooks, received) = hooks().await;
    let mut rabbit_client = rabbit.client().await.unwrap();
    rabbit_client.declare_exchange(EXCHANGE, "topic").await.unwrap();
    rabbit_client.declare_queue("tasks", &[]).await.unwrap();
    // As the source document's consumers bind theirs.
    rabbit_client.bind("tasks", EXCHANGE, "TASK.#").await.unwrap();
    nats.client().await.unwrap().create_stream("EVENTS", &["events.>"], &json!({})).await.unwrap();
    let transport = |name: &str, plugin: &str, url: &str, more: &str| {
        let port = url.rsplit(':').next().unwrap();
        format!(
            "[transport.{name}]\nplugin = \"{plugin}\"\nconfig = {{ servers = [\"{url}\"]{more} }}\n\
             allow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}\n\
             [relay.to-{name}]\nmatch = \"task.**\"\ntransport = \"{name}\"\n"
        )
    };
    let config = format!(
        "{}{}{}[transport.hooks]\nplugin = \"http\"\nallow = {{ net = [\"http://{hooks}\"] }}\n\
         [relay.to-hooks]\nmatch = \"task.**\"\ntransport = \"hooks\"\ntopic = \"http://{hooks}/in/{{stream}}?id={{resource_id}}\"\n",
        transport("bus", "nats", &nats.url(), ", stream = \"EVENTS\""),
        transport("rabbit", "rabbitmq", &rabbit.url(), &format!(", exchange = \"{EXCHANGE}\"")),
        transport("redis", "redis", &redis.url(), ""),
    );
    let site = Site::start(&config).await;
    assert_eq!(site.door.append(STREAM, &appended()).await, [1, 2]);

    let mut of_nats = Vec::new();
    until("both are in NATS", async || {
        of_nats = nats.client().await.unwrap().read_all("EVENTS").await.unwrap();
        of_nats.len() >= 2
    })
    .await;
    for (place, stored) in of_nats.iter().enumerate() {
        let seq = place + 1;
        assert_eq!(stored.subject, "events.task.node.n-1");
        for (name, value) in headers(seq) {
            assert_eq!(stored.header(name), Some(value), "{name}");
        }
        let id = format!("wire-{seq}");
        assert_eq!((stored.header("Nats-Msg-Id"), stored.header("x-key")), (Some(&*id), Some("t.17")));
        assert_eq!(stored.header("content-type"), Some("application/protobuf"));
        check_protobuf(&stored.payload, seq);
    }

    let mut of_rabbit = Vec::new();
    until("both are in RabbitMQ", async || {
        of_rabbit.extend(rabbit_client.read_all("tasks").await.unwrap());
        of_rabbit.len() >= 2
    })
    .await;
    for (place, stored) in of_rabbit.iter().enumerate() {
        let seq = place + 1;
        // In a part of a routing key a dot is written so. The second names no node, and its stream's name ends with no UUID.
        let routing_key = ["TASK.n-1.t%2E17", "TASK.-.t%2E17"][place];
        assert_eq!((stored.exchange.as_str(), stored.routing_key.as_str()), (EXCHANGE, routing_key));
        for (name, value) in headers(seq) {
            assert_eq!(stored.header(name), Some(value), "{name}");
        }
        let id = format!("wire-{seq}");
        assert_eq!((stored.property("message-id"), stored.header("x-key")), (Some(&*id), Some("t.17")));
        assert_eq!(stored.property("content-type"), Some("application/protobuf"));
        check_protobuf(&stored.payload, seq);
    }

    let mut of_redis = Vec::new();
    until("both are in Redis", async || {
        of_redis = redis.client().await.unwrap().read_all("events:task.node.n-1").await.unwrap();
        of_redis.len() >= 2
    })
    .await;
    for (place, entry) in of_redis.iter().enumerate() {
        let seq = place + 1;
        for (name, value) in headers(seq) {
            assert_eq!(entry.field(&format!("h:{name}")).as_deref(), Some(value), "{name}");
        }
        let id = format!("wire-{seq}");
        assert_eq!((entry.field("id"), entry.field("key")), (Some(id), Some("t.17".to_owned())));
        assert_eq!(entry.field("content-type").as_deref(), Some("application/protobuf"));
        let (_, body) = entry.fields.iter().find(|(name, _)| name == "payload").unwrap();
        check_protobuf(body, seq);
    }

    until("both are received", async || received.lock().unwrap().len() >= 2).await;
    for (place, (head, body)) in received.lock().unwrap().iter().enumerate() {
        let seq = place + 1;
        let header = |name: &str| head.get(name).map(String::as_str);
        let path = "POST /in/task.node.n-1?id=t.17 HTTP/1.1";
        assert_eq!(header(""), Some(path));
        for (name, value) in headers(seq) {
            assert_eq!(header(name), Some(value), "{name}");
        }
        let id = format!("wire-{seq}");
        assert_eq!((header("ce-id"), header("ce-specversion")), (Some(&*id), Some("1.0")));
        assert_eq!(header("ce-type"), Some(["TASK.STATE_TRANSITION", "TASK.41"][place]));
        assert_eq!((header("waybill-key"), header("content-type")), (Some("t.17"), Some("application/json")));
        let envelope: Value = serde_json::from_slice(body).unwrap();
        let mut wanted = appended()[place].clone();
        (wanted["stream"], wanted["seq"], wanted["tenant"]) = (STREAM.into(), seq.to_string().into(), "default".into());
        assert_eq!(envelope, wanted);
    }
    site.end().await;
}
