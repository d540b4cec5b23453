//! TLS of `net` against real TLS servers, seen from inside a guest.

mod certificates;
mod server;

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha384};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use waybill_core::endpoint::Grants;
use waybill_core::port::transport::Outcome;
use waybill_tests::guests;

use self::certificates::{CA, Ca, OTHER_CA};
use self::server::{Terms, tcp, tls};
use super::support::*;

/// What the guest reports of these steps, with the secrets of the tests granted.
async fn talk(address: SocketAddr, steps: &[&str]) -> String {
    converse(&address.to_string(), address, &CA.pem, steps).await
}

/// The same with the server under this name.
async fn talk_to(named: &str, address: SocketAddr, steps: &[&str]) -> String {
    converse(named, address, &CA.pem, steps).await
}

/// The same with another CA granted as `ca`.
async fn talk_trusting(ca: &str, address: SocketAddr, steps: &[&str]) -> String {
    converse(&address.to_string(), address, ca, steps).await
}

async fn converse(named: &str, address: SocketAddr, ca: &str, steps: &[&str]) -> String {
    run(guests::TALKS_BY_NET, json!({ "address": named, "names": steps }), address, ca).await
}

/// What a fixture reports as attributes, with the server and the tests' secrets granted.
async fn run(fixture: &str, config: Value, address: SocketAddr, ca: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let granted = [format!("tcp://{address}"), format!("tcp://localhost:{}", address.port())];
    let granted: Vec<&str> = granted.iter().map(String::as_str).collect();
    let mut spec = granting(config, &granted);
    grant_secrets(&mut spec.settings.grants, folder.path(), ca);
    let transport = start(fixture, spec).await;
    let outcomes = send(&transport, batch(1)).await.expect("answers");
    let [Outcome::Ack(receipt)] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    let seen: Vec<&str> = receipt.attributes.iter().map(|(_, seen)| seen.as_str()).collect();
    seen.join("; ")
}

fn grant_secrets(grants: &mut Grants, folder: &Path, ca: &str) {
    let (client, stranger) = (CA.client(), OTHER_CA.client());
    for (name, value) in [
        ("ca", ca),
        ("other-ca", &OTHER_CA.pem),
        ("cert", &client.certificate_pem),
        ("key", &client.key_pem),
        ("other-cert", &stranger.certificate_pem),
        ("other-key", &stranger.key_pem),
        ("no-pem", "-----BEGIN CERTIFICATE-----\nhunter2hunter2"),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, value).unwrap();
        grants.secrets.insert(name.to_owned(), format!("file:{}", path.display()));
    }
    grants.secrets.insert("gone".to_owned(), format!("file:{}", folder.join("gone").display()));
}

/// Sends back what comes until the peer ends its side, then ends its own.
async fn echo(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => break,
            Ok(read) => stream.write_all(&bytes[..read]).await.unwrap(),
        }
        stream.flush().await.unwrap();
    }
    let _ = stream.shutdown().await;
}

/// Asserts that `seen` is a TLS error that holds all of `parts`.
#[track_caller]
fn is_tls_error(seen: &str, parts: &[&str]) {
    assert!(seen.starts_with("NetError::Tls("), "{seen}");
    for part in parts {
        assert!(seen.contains(part), "no {part:?} in {seen}");
    }
}

/// The whole of a conversation: TLS from the first byte, both sides ended in good order.
#[tokio::test(flavor = "multi_thread")]
pub async fn talks_by_net() {
    let address = tls(Terms::default(), echo).await;
    let seen =
        talk(address, &["connect tls ca=ca", "write hello", "read 5 10", "finish", "write x", "read 1 10"]).await;
    assert_eq!(seen, "connected; written; got \"hello\"; finished; NetError::Closed; NetError::Closed");
}

/// The same connections, waited for by the whole instance; TLS from the first byte and in place.
#[tokio::test(flavor = "multi_thread")]
pub async fn talks_tls_by_blocking() {
    let address = tls(Terms::default(), echo).await;
    let config = json!({ "address": address.to_string() });
    let seen = run(guests::TALKS_TLS_BY_BLOCKING, config, address, &CA.pem).await;
    let each = "Ok(\"1.3 hello Err(NetError::Closed)\")";
    assert_eq!(seen, format!("{each}; {each}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_is_the_best_in_common() {
    for (versions, version) in [
        (vec![&rustls::version::TLS13], "1.3"),
        (vec![&rustls::version::TLS12], "1.2"),
        (rustls::ALL_VERSIONS.to_vec(), "1.3"),
    ] {
        let address = tls(Terms { versions, ..Terms::default() }, echo).await;
        let seen = talk(address, &["connect tls ca=ca", "info", "write hello", "read 5 5"]).await;
        assert!(seen.contains(&format!("tls=Some(\"{version}\")")), "{seen}");
        assert!(seen.ends_with("written; got \"hello\""), "{seen}");
    }
}

/// Both ends of a connection derive the same binding, and no other connection has it.
#[tokio::test(flavor = "multi_thread")]
async fn the_binding_of_tls_1_3_is_the_exporters() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let terms = Terms { versions: vec![&rustls::version::TLS13], ..Terms::default() };
    let address = tls(terms, move |stream| {
        let tell = tell.clone();
        async move {
            let exporter = stream.get_ref().1;
            let binding = exporter.export_keying_material(vec![0; 32], b"EXPORTER-Channel-Binding", None).unwrap();
            tell.send(binding).unwrap();
            echo(stream).await;
        }
    })
    .await;
    let seen = talk(address, &["connect tls ca=ca", "info", "drop", "connect tls ca=ca", "info"]).await;
    let (first, second) = (told.recv().await.unwrap(), told.recv().await.unwrap());
    assert_ne!(first, second);
    for binding in [first, second] {
        assert!(seen.contains(&hex(&binding)), "{seen}");
    }
}

/// The hash is that of the certificate's own signature.
#[tokio::test(flavor = "multi_thread")]
async fn the_binding_of_tls_1_2_is_the_certificates_hash() {
    type Hash = fn(&[u8]) -> Vec<u8>;
    let cases: [(_, Option<Hash>); 3] = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, Some(|bytes| Sha256::digest(bytes).to_vec())),
        (&rcgen::PKCS_ECDSA_P384_SHA384, Some(|bytes| Sha384::digest(bytes).to_vec())),
        // Ed25519 has no hash that the RFC could mean.
        (&rcgen::PKCS_ED25519, None),
    ];
    for (algorithm, hash) in cases {
        let ca = Ca::with("CA", algorithm);
        let identity = ca.server(&["127.0.0.1"]);
        let expected = hash.map(|hash| hex(&hash(&identity.certificate)));
        let terms = Terms { versions: vec![&rustls::version::TLS12], ..Terms::with(identity) };
        let address = tls(terms, echo).await;
        let seen = talk_trusting(&ca.pem, address, &["connect tls ca=ca", "info"]).await;
        assert!(seen.ends_with(&format!("binding={expected:?}")), "{seen}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_issuer_is_refused() {
    let address = tls(Terms::default(), echo).await;
    let port = address.port().to_string();
    is_tls_error(&talk(address, &["connect tls ca=other-ca"]).await, &[&port, "other-ca", "grant the CA"]);
    is_tls_error(&talk(address, &["connect tls"]).await, &["unknown issuer", "tls_ca (ca-secret in the contract)"]);
}

/// Where the server of [`the_platforms_roots_count`] is, in the process that it starts.
const OWN_PROCESS: &str = "WAYBILL_TEST_TLS_SERVER";

/// The platform's roots are read once a process, so one of its own is told of others: this test, once more.
#[tokio::test(flavor = "multi_thread")]
async fn the_platforms_roots_count() {
    if let Ok(address) = std::env::var(OWN_PROCESS) {
        let seen = talk(address.parse().unwrap(), &["connect tls", "write hello", "read 5 5"]).await;
        return println!("seen: {seen}");
    }
    let address = tls(Terms::default(), echo).await;
    let roots = tempfile::NamedTempFile::new().unwrap();
    let asks = async |ca: &str| {
        std::fs::write(roots.path(), ca).unwrap();
        let child = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "guests::tls::the_platforms_roots_count", "--nocapture"])
            .env("SSL_CERT_FILE", roots.path())
            .env_remove("SSL_CERT_DIR")
            .env(OWN_PROCESS, address.to_string())
            .output();
        String::from_utf8(child.await.unwrap().stdout).unwrap()
    };
    let trusting = asks(&CA.pem).await;
    assert!(trusting.contains("seen: connected; written; got \"hello\""), "{trusting}");
    let stranger = asks(&OTHER_CA.pem).await;
    assert!(
        stranger.contains("seen: NetError::Tls(") && stranger.contains("tls_ca (ca-secret in the contract)"),
        "{stranger}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_must_have_the_name() {
    let address = tls(Terms::with(CA.server(&["broker.example", "localhost"])), echo).await;
    let refused = talk(address, &["connect tls ca=ca"]).await;
    is_tls_error(&refused, &["isn't for 127.0.0.1", "broker.example", "set server-name"]);
    // By the name of the address, or by the one that the options give.
    let named = format!("localhost:{}", address.port());
    assert_eq!(talk_to(&named, address, &["connect tls ca=ca"]).await, "connected");
    assert_eq!(talk(address, &["connect tls ca=ca name=broker.example"]).await, "connected");
    is_tls_error(&talk(address, &["connect tls ca=ca name=other.example"]).await, &["isn't for other.example"]);
    is_tls_error(&talk(address, &["connect tls ca=ca name=no/name"]).await, &["server-name", "neither"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_must_be_valid_now() {
    let address = tls(Terms::with(CA.expired()), echo).await;
    is_tls_error(&talk(address, &["connect tls ca=ca"]).await, &["expired on 2021-01-01", "renew it"]);
    let address = tls(Terms::with(CA.not_yet_valid()), echo).await;
    is_tls_error(&talk(address, &["connect tls ca=ca"]).await, &["isn't valid before 2119-01-01", "clock"]);
}

/// A certificate that is wanted, in both versions: 1.3 tells of a refusal only after the handshake.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_is_shown_where_it_is_wanted() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let terms = Terms { versions: vec![version], wants_client: true, ..Terms::default() };
        let address = tls(terms, echo).await;
        let good = talk(address, &["connect tls ca=ca cert=cert key=key", "write hello", "read 5 5"]).await;
        assert_eq!(good, "connected; written; got \"hello\"");
        let without = talk(address, &["connect tls ca=ca", "read 1 1"]).await;
        is_tls_error(first_error(&without), &["wants a client certificate", "tls_cert and tls_key"]);
        let stranger = talk(address, &["connect tls ca=ca cert=other-cert key=other-key", "read 1 1"]).await;
        is_tls_error(first_error(&stranger), &["refuses the client certificate of the secret", "other-cert"]);
    }
}

fn first_error(seen: &str) -> &str {
    seen.split("; ").find(|step| step.starts_with("NetError")).unwrap_or(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_cant_be_used_are_told_without_their_value() {
    let address = tls(Terms::default(), echo).await;
    let told = async |step: &str| talk(address, &[step]).await;
    is_tls_error(&told("connect tls ca=no-pem").await, &["no-pem", "(ca-secret)", "PEM"]);
    is_tls_error(&told("connect tls ca=key").await, &["holds no certificate"]);
    is_tls_error(&told("connect tls ca=ca cert=cert key=cert").await, &["(client-key-secret)", "key in PEM"]);
    is_tls_error(&told("connect tls ca=ca cert=cert key=other-key").await, &["isn't that of the certificate"]);
    is_tls_error(&told("connect tls ca=ca cert=cert").await, &["grant both or neither"]);
    is_tls_error(&told("connect tls ca=gone").await, &["can't be read"]);
    assert!(!told("connect tls ca=no-pem").await.contains("hunter2"));
    let denied = told("connect tls ca=withheld").await;
    assert!(
        denied.starts_with("NetError::Denied(") && denied.contains("fixture needs `secrets.withheld = "),
        "{denied}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protocol_is_agreed_on() {
    let terms = || Terms { alpn: vec!["one", "two"], ..Terms::default() };
    let address = tls(terms(), echo).await;
    let seen = talk(address, &["connect tls ca=ca alpn=three,two", "info"]).await;
    assert!(seen.contains("alpn=Some(\"two\")"), "{seen}");
    assert!(talk(address, &["connect tls ca=ca", "info"]).await.contains("alpn=None"));
    is_tls_error(&talk(address, &["connect tls ca=ca alpn=three,four"]).await, &["three, four", "change alpn"]);
}

/// As NATS, SMTP or Postgres do it: a greeting in plain text, then TLS on the same connection.
#[tokio::test(flavor = "multi_thread")]
async fn tls_starts_in_place() {
    let acceptor = Terms::default().acceptor();
    let address = tcp(move |mut stream| {
        let acceptor = acceptor.clone();
        async move {
            stream.write_all(b"INFO\n").await.unwrap();
            echo(acceptor.accept(stream).await.unwrap()).await;
        }
    })
    .await;
    let steps =
        ["connect", "read 5 100", "info", "start-tls ca=ca", "info", "write hello", "read 5 10", "start-tls ca=ca"];
    let seen = talk(address, &steps).await;
    let steps: Vec<&str> = seen.split("; ").collect();
    assert_eq!(steps[1], "got \"INFO\\n\"");
    assert_eq!(steps[2], "tls=None alpn=None binding=None");
    assert!(steps[3] == "started" && steps[4].starts_with("tls=Some(\"1.3\")"), "{seen}");
    assert_eq!(steps[6], "got \"hello\"");
    is_tls_error(steps[7], &["TLS already"]);
}

/// Whoever sits between could have put them there: they must not count as said under TLS.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_injected_before_tls_end_the_connection() {
    let acceptor = Terms::default().acceptor();
    let address = tcp(move |mut stream| {
        let acceptor = acceptor.clone();
        async move {
            stream.write_all(b"INFO\nINJECTED").await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                echo(stream).await;
            }
        }
    })
    .await;
    let seen = talk(address, &["connect", "read 5 5", "start-tls ca=ca", "write hello", "read 1 100"]).await;
    let steps: Vec<&str> = seen.split("; ").collect();
    assert_eq!(steps[1], "got \"INFO\\n\"");
    for step in &steps[2..] {
        is_tls_error(step, &["may be injected", "given up"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_doesnt_start_beside_a_read() {
    let address = tcp(echo).await;
    let seen = talk(address, &["connect", "start-tls-while-reading ca=ca", "write hello", "read 5 5"]).await;
    assert_eq!(seen, "connected; NetError::Busy; written; got \"hello\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_of_tls_that_cant_work_leaves_the_connection_as_it_was() {
    let address = tcp(echo).await;
    let seen = talk(address, &["connect", "start-tls ca=no-pem", "write hello", "read 5 5"]).await;
    is_tls_error(seen.split("; ").nth(1).unwrap(), &["PEM"]);
    assert!(seen.ends_with("written; got \"hello\""), "{seen}");
}

/// Each side ends by itself; the other goes on.
#[tokio::test(flavor = "multi_thread")]
async fn one_side_ends_and_the_other_goes_on() {
    // The peer ends first, then reads what still comes and tells it in the next connection.
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let address = tls(Terms::default(), move |mut stream| {
        let tell = tell.clone();
        async move {
            stream.write_all(b"bye").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut rest = Vec::new();
            let end = stream.read_to_end(&mut rest).await;
            tell.send((rest, end.is_ok())).unwrap();
        }
    })
    .await;
    let steps = ["connect tls ca=ca", "read 3 3", "read 1 1", "write late", "finish"];
    assert_eq!(talk(address, &steps).await, "connected; got \"bye\"; NetError::Closed; written; finished");
    assert_eq!(told.recv().await.unwrap(), (b"late".to_vec(), true));

    // The guest ends first; the peer answers after it has seen the end.
    let address = tls(Terms::default(), |mut stream| async move {
        let mut asked = Vec::new();
        stream.read_to_end(&mut asked).await.unwrap();
        stream.write_all(format!("{} bytes", asked.len()).as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    })
    .await;
    let steps = ["connect tls ca=ca", "write hello", "finish", "read 7 100", "read 1 1"];
    assert_eq!(talk(address, &steps).await, "connected; written; finished; got \"5 bytes\"; NetError::Closed");
}

/// An end without close_notify may have been cut by anybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_stream_is_no_end() {
    let address = tls(Terms::default(), |mut stream| async move {
        stream.write_all(b"half").await.unwrap();
        stream.flush().await.unwrap();
        // Only the TCP stream below ends.
        stream.get_mut().0.shutdown().await.unwrap();
        let _ = stream.read(&mut [0]).await;
    })
    .await;
    let seen = talk(address, &["connect tls ca=ca", "read 4 4", "read 1 1"]).await;
    assert!(seen.starts_with("connected; got \"half\"; NetError::Reset(\"truncated: "), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_runs_out_without_loss() {
    // A peer that takes the connection and says nothing.
    let address = tcp(|mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    assert_eq!(talk(address, &["connect tls ca=ca timeout=200"]).await, "NetError::Timeout");
    let started = talk(address, &["connect", "start-tls ca=ca timeout=200", "write x"]).await;
    assert_eq!(started, "connected; NetError::Timeout; NetError::Timeout");

    // A read that ran out of time has consumed nothing: part of what it wanted is there for the next.
    let address = tls(Terms::default(), echo).await;
    let steps = ["connect tls ca=ca", "read 0 10", "write hello", "read 6 10 timeout=500", "write !", "read 6 10"];
    let seen = talk(address, &steps).await;
    assert_eq!(seen, "connected; got \"\"; written; NetError::Timeout; written; got \"hello!\"");

    // A peer that reads nothing: the write runs out of time, and nothing is written after it.
    let address = tls(Terms::default(), |stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let seen = talk(address, &["connect tls ca=ca", "flood timeout=500", "write x"]).await;
    assert!(seen.starts_with("connected; NetError::Timeout; NetError::Reset("), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_without_tls_or_with_an_old_one_is_recognised() {
    for garbage in ["HTTP/1.1 400 Bad Request\r\n\r\n", "INFO {}\r\n", "\0\0\0\0\0\0\0\0\0\0"] {
        let address = tcp(move |mut stream| async move {
            stream.write_all(garbage.as_bytes()).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        })
        .await;
        is_tls_error(&talk(address, &["connect tls ca=ca"]).await, &["doesn't speak TLS there"]);
    }
    // A fatal alert of TLS 1.0: protocol_version.
    let address = tcp(|mut stream| async move {
        stream.write_all(&[0x15, 3, 1, 0, 2, 2, 70]).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    is_tls_error(&talk(address, &["connect tls ca=ca"]).await, &["neither TLS 1.2 nor 1.3"]);
    // One that hangs up may only be restarting.
    let address = tcp(|stream| async move { drop(stream) }).await;
    let seen = talk(address, &["connect tls ca=ca"]).await;
    assert!(seen.starts_with("NetError::Reset(") && seen.contains("TLS handshake"), "{seen}");
}

/// Several MiB each way at once, compared byte by byte inside the guest.
#[tokio::test(flavor = "multi_thread")]
async fn big_transfers_run_both_ways_at_once() {
    let address = tls(Terms::default(), echo).await;
    let seen = talk(address, &["connect tls ca=ca", "exchange 8388608", "finish", "read 1 1"]).await;
    assert_eq!(seen, "connected; exchanged 8388608; finished; NetError::Closed");
}
