//! TLS: certificates from files, HTTP/1.1 and HTTP/2, renewal, and what is wrong with the files.

use std::path::PathBuf;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::AsyncWriteExt;
use waybill_server::limits::Limits;
use waybill_server::tls::{Encryption, Tls};

use crate::live::{Live, PATIENCE, rest};

/// A folder with a certificate of its own for `localhost`.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        files.renew();
        files
    }
    /// Another certificate with another key, in the same files. Answers the certificate.
    fn renew(&self) -> reqwest::Certificate {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        std::fs::write(self.cert(), cert.pem()).unwrap();
        std::fs::write(self.key(), signing_key.serialize_pem()).unwrap();
        reqwest::Certificate::from_pem(cert.pem().as_bytes()).unwrap()
    }
    fn cert(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }
    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }
    fn load(&self) -> Tls {
        Tls::load(&self.cert(), &self.key()).unwrap()
    }
}

fn client(trusted: reqwest::Certificate) -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_built_in_root_certs(false).add_root_certificate(trusted)
}

fn https(live: &Live, path: &str) -> String {
    format!("https://localhost:{}{path}", live.address.port())
}

#[tokio::test]
async fn http1_and_http2_are_served_within_tls_and_clear_text_is_not() {
    let files = Files::new();
    let trusted = files.renew();
    let mut live = Live::with(Encryption::Tls(files.load()), Limits::default(), PATIENCE).await;
    let client2 = client(trusted.clone()).build().unwrap();
    let answer = client2.get(https(&live, "/v1/whoami")).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    let client1 = client(trusted).http1_only().build().unwrap();
    let own = https(&live, "");
    for (origin, status) in [(own.clone(), 200), (own.replace("https", "http"), 403)] {
        let pause = client1.post(https(&live, "/v1/transports/http/pause")).header("origin", origin);
        let answer = pause.send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (status, http::Version::HTTP_11));
    }
    let mut clear = live.connect().await;
    clear.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(!rest(clear).await.contains("200 OK"));
    drop((client1, client2));
    live.stop();
    live.ended().await;
}

/// Who connects and says nothing, or half a hello, is gone after a while, and its place free.
#[tokio::test]
async fn a_handshake_that_does_not_come_ends() {
    let files = Files::new();
    let trusted = files.renew();
    let limits = Limits { first_request_timeout: Duration::from_millis(200), connections_max: 1, ..Limits::default() };
    let live = Live::with(Encryption::Tls(files.load()), limits, PATIENCE).await;
    for start in [&b""[..], b"\x16\x03\x01\x02"] {
        let mut silent = live.connect().await;
        silent.write_all(start).await.unwrap();
        assert_eq!(rest(silent).await, "");
    }
    let client = client(trusted).build().unwrap();
    let served = async {
        loop {
            match client.get(https(&live, "/livez")).send().await {
                Ok(answer) if answer.status() == 200 => return,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, served).await.expect("a place wasn't given back");
}

#[tokio::test]
async fn connections_past_the_bound_are_told_within_tls_too() {
    let files = Files::new();
    let trusted = files.renew();
    let live =
        Live::with(Encryption::Tls(files.load()), Limits { connections_max: 1, ..Limits::default() }, PATIENCE).await;
    let first = client(trusted.clone()).build().unwrap();
    assert_eq!(first.get(https(&live, "/livez")).send().await.unwrap().status(), 200);
    let second = client(trusted).build().unwrap();
    let told = second.get(https(&live, "/livez")).send().await.unwrap();
    assert_eq!(told.status(), 503);
    assert!(told.text().await.unwrap().contains("HTTP.OVERLOADED"));
}

#[tokio::test]
async fn a_renewed_certificate_counts_when_it_is_put_in_force() {
    let files = Files::new();
    let before = files.renew();
    let tls = files.load();
    let live = Live::with(Encryption::Tls(tls.clone()), Limits::default(), PATIENCE).await;
    let ask = |trusted: &reqwest::Certificate| {
        let client = client(trusted.clone()).build().unwrap();
        let request = client.get(https(&live, "/livez"));
        async move { request.send().await.map(|answer| answer.status().as_u16()) }
    };
    let after = files.renew();
    assert!(ask(&before).await.is_ok() && ask(&after).await.is_err());
    let renewed = Tls::renewed(&files.cert(), &files.key()).unwrap();
    assert!(ask(&before).await.is_ok(), "it was only read");
    tls.put_in_force(renewed);
    assert!(ask(&after).await.is_ok() && ask(&before).await.is_err());
    std::fs::write(files.key(), "nonsense").unwrap();
    assert!(Tls::renewed(&files.cert(), &files.key()).is_err());
    assert!(ask(&after).await.is_ok(), "what can't be used changes nothing");
    let moved = Files::new();
    let elsewhere = moved.renew();
    tls.put_in_force(Tls::renewed(&moved.cert(), &moved.key()).unwrap());
    assert!(ask(&elsewhere).await.is_ok() && ask(&after).await.is_err());
}

#[test]
fn what_is_wrong_with_the_files_is_told_with_the_file_and_the_fix() {
    let (files, other) = (Files::new(), Files::new());
    let write = |name: &str, text: &str| {
        let path = files.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let text = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let secret = text(files.key());
    let broken = secret.replace("-----END PRIVATE KEY-----", "");
    let rows: [(PathBuf, PathBuf, &str, &[&str]); 7] = [
        (files.folder.path().join("gone"), files.key(), "server.tls.cert", &["gone", "No such file", "check the path"]),
        (files.cert(), files.folder.path().join("gone"), "server.tls.key", &["gone", "No such file", "check the path"]),
        (write("empty", ""), files.key(), "server.tls.cert", &["empty", "no certificate", "in PEM"]),
        (files.key(), files.key(), "server.tls.cert", &["key.pem", "no certificate", "in PEM"]),
        (files.cert(), files.cert(), "server.tls.key", &["cert.pem", "no private key", "in PEM"]),
        (files.cert(), write("broken", &broken), "server.tls.key", &["broken", "no private key", "in PEM"]),
        (files.cert(), other.key(), "server.tls.key", &["key.pem", "cert.pem", "made for"]),
    ];
    for (cert, key, setting, words) in rows {
        let error = Tls::load(&cert, &key).unwrap_err();
        let told = error.to_string();
        assert!(error.code().as_str() == "CONFIG.TLS" && told.starts_with(setting), "{told}");
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
        let line = secret.lines().nth(1).unwrap();
        assert!(!told.contains(line), "a key is in no error");
    }
}
