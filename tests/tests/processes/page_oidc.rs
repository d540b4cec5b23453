//! People sign in at the page of a real host by a real provider of OpenID Connect, npm's oidc-provider, both over TLS with certificates of an
//! authority that only this test knows. What they do stands in `tests/clients/oidc`, which prints a line a check.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use reqwest::{Certificate, Client};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use waybill_testkit::process::{Host, Launch, binary};
use waybill_tests::certificates::Authority;

use crate::generated_clients::{node_and_packages, run_within};

/// Far longer than anything here takes: what hangs must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two questions to a host that starts.
const POLL: Duration = Duration::from_millis(20);
const TOKEN: &str = "a-token-of-a-program-with-enough-of-entropy-in-it";
/// With what has to be escaped in a header.
const SECRET: &str = "a secret: of %20 the client + more & more";
const CHECKS: [&str; 8] = [
    "a link leads to the provider and back to where one was going",
    "an answer is good once",
    "an answer is good in its own browser",
    "who has no role is told which claim gives none",
    "who gives up at the provider reads so",
    "nobody is led elsewhere",
    "an act is done as the person",
    "signing out ends it",
];

/// A provider that runs as long as this lives.
struct Provider {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Provider {
    /// Starts it; the second part is where it is.
    async fn start(node: &Path, dir: &Path) -> (Self, String) {
        let given = json!({ "cert": dir.join("cert.pem"), "key": dir.join("key.pem"), "clientId": "waybill", "secret": SECRET });
        let mut command = Command::new(node);
        command.arg(dir.join("provider.mjs")).arg(given.to_string()).current_dir(dir).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut provider = Self { _child: child, input, output };
        let issuer = provider.said().await;
        (provider, issuer)
    }

    /// Tells it where it may lead back to.
    async fn lead_to(&mut self, address: &str) {
        self.input.write_all(format!("{address}\n").as_bytes()).await.unwrap();
        assert_eq!(self.said().await, "ready");
    }

    async fn said(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await.expect("it says something");
        line.unwrap().expect("it runs")
    }
}

fn config(dir: &Path, issuer: &str) -> String {
    let hash: String = Sha256::digest(TOKEN).iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        r#"
[store]
url = "surrealkv://{}"
[server]
tls = {{ cert = "cert.pem", key = "key.pem" }}
[transport.nowhere]
plugin = "noop"
[[auth.token]]
name = "program"
sha256 = "{hash}"
roles = ["admin"]
[auth.oidc]
issuer = "{issuer}"
client_id = "waybill"
secret = "file:secret"
name = "Shop ID"
scopes = ["openid", "email", "groups"]
roles = {{ "waybill-ops" = ["admin"], "waybill-viewers" = "viewer" }}
tenants_claim = "teams"
ca = "ca.pem"
"#,
        dir.join("data").display()
    )
}

/// What the host answers a program.
async fn read(client: &Client, base: &str, path: &str) -> Option<Value> {
    let answer = client.get(format!("{base}{path}")).bearer_auth(TOKEN).send().await.ok()?;
    if answer.status().is_success() { answer.json().await.ok() } else { None }
}

async fn until_ready(client: &Client, base: &str) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while read(client, base, "/readyz").await.is_none() {
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(waited.await.is_ok(), "{base} isn't ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_sign_in_by_a_real_provider_and_their_acts_carry_their_names() {
    let (node, packages) = node_and_packages("oidc");
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/oidc");
    for file in ["package.json", "provider.mjs", "sign_in.mjs"] {
        std::fs::copy(programs.join(file), dir.join(file)).unwrap();
    }
    std::os::unix::fs::symlink(&packages, dir.join("node_modules")).unwrap();
    let authority = Authority::new("the authority of this test");
    let identity = authority.sign(&["localhost", "127.0.0.1"], |_| {});
    let files = [
        ("ca.pem", authority.pem()),
        ("cert.pem", identity.cert),
        ("key.pem", identity.key),
        ("secret", SECRET.to_owned()),
    ];
    for (file, text) in files {
        std::fs::write(dir.join(file), text).unwrap();
    }

    let (mut provider, issuer) = Provider::start(&node, dir).await;
    let mut host = Host::start(&Launch::prepare(binary().unwrap(), dir, &config(dir, &issuer)).unwrap()).unwrap();
    let base = host.address().await.expect("it says where it listens");
    let callback = format!("{base}/ui/sign-in/oidc/callback");
    provider.lead_to(&callback).await;
    let trusted = Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    let client = Client::builder().add_root_certificate(trusted).build().unwrap();
    until_ready(&client, &base).await;

    let given = json!({ "base": base, "issuer": issuer, "callback": callback });
    let mut people = Command::new(&node);
    people.arg(dir.join("sign_in.mjs")).arg(given.to_string()).current_dir(dir);
    let said = run_within(PATIENCE, people.env("NODE_EXTRA_CA_CERTS", dir.join("ca.pem"))).await;
    let done: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    let log = std::fs::read_to_string(host.log()).unwrap_or_default();
    assert_eq!(done, CHECKS, "{said}\n{log}");

    let audit = read(&client, &base, "/v1/audit").await.expect("the trail is read");
    let acts = audit["items"].as_array().unwrap();
    let by = |kind: &str| acts.iter().filter(|act| act["kind"] == kind).collect::<Vec<_>>();
    let [ben, ada] = by("SignedIn")[..] else { panic!("{audit}") };
    assert_eq!((&ada["actor"], &ben["actor"]), (&json!("ada@shop.example (oidc:ada)"), &json!("oidc:ben")));
    let detail = json!({
        "issuer": issuer, "sub": "ada", "email": "ada@shop.example", "roles": ["admin"], "tenants": ["*"],
    });
    assert_eq!(ada["detail"], detail);
    assert_eq!((&ben["detail"]["email"], &ben["detail"]["tenants"]), (&Value::Null, &json!(["acme"])));
    let paused = by("TransportPaused");
    assert_eq!(paused.iter().map(|act| &act["actor"]).collect::<Vec<_>>(), ["ada@shop.example (oidc:ada)"]);
    assert!(!log.contains(SECRET));
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}
