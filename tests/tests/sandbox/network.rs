//! The network policy from outside: each case of `tests/cases/network.toml` is tried by every way that a guest has, and as a topic
//! of the bundled http transport. What would be connected to is written down; nothing but what a case allows may be.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use waybill_core::endpoint::{EndpointSettings, Grants};
use waybill_core::message::{Delivery, Message};
use waybill_core::port::transport::{Fault, Outcome};
use waybill_core::topic::Topic;
use waybill_sandbox::grants::Resolve;
use waybill_sandbox::{EndpointSpec, LoadedPlugin, PluginSource, Sandbox, SandboxOptions, WasmTransport, World};
use waybill_tests::guests;

use super::guests::support::{self, batch, delivery, reference, send};

/// Port of a target that names none.
const PORT: u16 = 8080;

/// One case of the file.
#[derive(Clone, Debug)]
struct Case {
    place: usize,
    target: String,
    grant: Vec<String>,
    internal: bool,
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    expected: String,
    dials: BTreeSet<SocketAddr>,
    tries: u64,
    redirect: Option<String>,
    /// Whether names may be resolved at all.
    resolved: bool,
}

const KEYS: [&str; 9] =
    ["target", "grant", "internal", "answers", "expected", "dials", "tries", "redirect", "resolved"];

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/network.toml");
    let file: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let texts = |value: &toml::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let case = |(place, case): (usize, &toml::Value)| {
        let case = case.as_table().unwrap();
        assert!(case.keys().all(|key| KEYS.contains(&key.as_str())), "case {place} has an unknown key");
        let text = |key: &str| case.get(key).map(|text| text.as_str().unwrap().to_owned());
        let answers = case.get("answers").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        let addresses = |answer: &toml::Value| texts(answer).iter().map(|ip| ip.parse().unwrap()).collect();
        Case {
            place: place + 1,
            target: text("target").unwrap(),
            grant: case.get("grant").map_or_else(|| vec!["*:*".to_owned()], &texts),
            internal: case.get("internal").is_some_and(|internal| internal.as_bool().unwrap()),
            answers: answers
                .into_iter()
                .map(|(name, list)| (name, list.as_array().unwrap().iter().map(addresses).collect()))
                .collect(),
            expected: text("expected").unwrap(),
            dials: case.get("dials").map(&texts).unwrap_or_default().iter().map(|dial| dial.parse().unwrap()).collect(),
            tries: case.get("tries").map_or(1, |tries| u64::try_from(tries.as_integer().unwrap()).unwrap()),
            redirect: text("redirect"),
            resolved: case.get("resolved").is_none_or(|resolved| resolved.as_bool().unwrap()),
        }
    };
    file["case"].as_array().unwrap().iter().enumerate().map(case).collect()
}

impl Case {
    /// The target with a port.
    fn peer(&self) -> String {
        let tail = &self.target[self.target.rfind([']', '@']).map_or(0, |at| at + 1)..];
        if tail.contains(':') { self.target.clone() } else { format!("{}:{PORT}", self.target) }
    }

    /// The grant for every scheme.
    fn grants(&self) -> Grants {
        let schemes = ["tcp", "http", "https"];
        let patterns: Vec<String> =
            self.grant.iter().flat_map(|peer| schemes.map(|scheme| format!("{scheme}://{peer}"))).collect();
        Grants { internal: self.internal, ..Grants::none().allow(patterns.iter().map(String::as_str)) }
    }
}

/// A network that answers from a case and writes down what is dialled. Every dial ends at one server of this process.
#[derive(Default)]
struct Recorded {
    state: Mutex<State>,
    server: Mutex<Option<SocketAddr>>,
}

#[derive(Default)]
struct State {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: HashMap<String, usize>,
    dials: Vec<SocketAddr>,
}

#[async_trait]
impl Resolve for Recorded {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut state = self.state.lock().unwrap();
        let turn = state.asked.entry(name.to_owned()).or_default();
        *turn += 1;
        let turn = *turn - 1;
        let answers = state.answers.get(name).ok_or_else(|| io::Error::other("unknown name"))?;
        Ok(answers.get(turn).or(answers.last()).cloned().unwrap_or_default())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.state.lock().unwrap().dials.push(address);
        let server = self.server.lock().unwrap().expect("is started");
        TcpStream::connect(server).await
    }
}

impl Recorded {
    fn begin(&self, case: &Case) {
        *self.state.lock().unwrap() = State { answers: case.answers.clone(), ..State::default() };
    }

    /// What was dialled, and how many names were looked up.
    fn seen(&self) -> (Vec<SocketAddr>, usize) {
        let state = self.state.lock().unwrap();
        (state.dials.clone(), state.asked.values().sum())
    }
}

/// Answers every request: with nothing, or with a way elsewhere.
async fn serve(listener: TcpListener, redirect: Arc<Mutex<Option<String>>>, requests: Arc<AtomicU64>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let (redirect, requests) = (Arc::clone(&redirect), Arc::clone(&requests));
        tokio::spawn(async move {
            let mut bytes = [0_u8; 8192];
            while let Ok(read) = stream.read(&mut bytes).await {
                if read == 0 {
                    return;
                }
                requests.fetch_add(1, Ordering::SeqCst);
                let elsewhere = redirect.lock().unwrap().clone();
                let answer = match elsewhere {
                    Some(to) => format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"),
                    None => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
                };
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// What came of a try, in the words of the cases.
fn word(seen: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| seen.contains(word));
    if has(&["reached"]) {
        "reached"
    } else if has(&["Denied", "denied", "HTTP.DENIED"]) {
        "denied"
    } else if has(&["Resolve", "DnsError", "HTTP.RESOLVE"]) {
        "unresolved"
    } else if has(&["Unsupported", "UriInvalid", "not a request", "HTTP.URL", "HTTP.UNSUPPORTED", "no topic"]) {
        "bad"
    } else {
        panic!("what is this: {seen}")
    }
}

fn agrees(expected: &str, found: &str) -> bool {
    match expected {
        "any" => true,
        "refused" => found != "reached",
        exact => exact == found,
    }
}

struct Bench {
    sandbox: Sandbox,
    network: Arc<Recorded>,
    redirect: Arc<Mutex<Option<String>>>,
}

impl Bench {
    async fn start() -> Self {
        let network = Arc::new(Recorded::default());
        let cache_dir = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("network"));
        let resolver: Arc<dyn Resolve> = network.clone();
        let sandbox =
            Sandbox::new(SandboxOptions { cache_dir, resolver, ..SandboxOptions::default() }).expect("engine");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        *network.server.lock().unwrap() = Some(listener.local_addr().unwrap());
        let redirect = Arc::default();
        tokio::spawn(serve(listener, Arc::clone(&redirect), Arc::default()));
        Self { sandbox, network, redirect }
    }

    async fn load(&self, path: &str) -> LoadedPlugin {
        self.sandbox.load(PluginSource::File(path.into()), World::Transport).await.expect("loads")
    }

    /// Runs a case by one way; answers what is wrong.
    async fn run(&self, case: &Case, way: &str, tries: impl AsyncFn(&Case) -> Vec<String>) -> Vec<String> {
        self.network.begin(case);
        *self.redirect.lock().unwrap() = case.redirect.clone();
        let seen = tries(case).await;
        let (dials, lookups) = self.network.seen();
        let mut wrong = Vec::new();
        let mut say = |what: String| wrong.push(format!("case {} ({}) by {way}: {what}", case.place, case.target));
        for dial in dials.iter().filter(|dial| !case.dials.contains(dial)) {
            say(format!("FORBIDDEN: dialled {dial}"));
        }
        if !case.resolved && lookups > 0 {
            say("looked up".to_owned());
        }
        for one in &seen {
            for part in one.split("; http: ") {
                let found = word(part);
                if !agrees(&case.expected, found) {
                    say(format!("{found} instead of {}: {part}", case.expected));
                }
                if found == "reached" && dials.is_empty() {
                    say("reached without a dial".to_owned());
                }
            }
        }
        wrong
    }
}

/// Tries a case through a fixture that reports what it saw.
async fn by_guest(plugin: &LoadedPlugin, case: &Case) -> Vec<String> {
    let settings = EndpointSettings {
        config: json!({ "address": case.peer() }),
        grants: case.grants(),
        ..EndpointSettings::new("fixture")
    };
    let transport = WasmTransport::start(plugin.clone(), EndpointSpec::new(settings)).await.expect("opens");
    let mut seen = Vec::new();
    for _ in 0..case.tries {
        seen.push(reference(send(&transport, batch(1)).await.expect("answers")));
    }
    seen
}

/// Tries a case as the topic of a message.
async fn by_topic(plugin: &LoadedPlugin, case: &Case) -> Vec<String> {
    let url = format!("http://{}/hook", case.peer());
    let Ok(topic) = Topic::parse(&url) else { return vec!["no topic".to_owned()] };
    let settings = EndpointSettings { grants: case.grants(), ..EndpointSettings::new("hooks") };
    let transport = match WasmTransport::start(plugin.clone(), EndpointSpec::new(settings)).await {
        Ok(transport) => transport,
        Err(error) if case.grant.is_empty() => return vec![format!("denied: {error}")],
        Err(error) => panic!("{error}"),
    };
    let mut seen = Vec::new();
    for number in 0..case.tries {
        let sample = delivery(number, "{}");
        let message = Message { topic: topic.clone(), key: None, ..(*sample.message).clone() };
        let delivery = Delivery { message: Arc::new(message), destination: topic.subject().to_owned(), ..sample };
        let told = |Fault { code, reason, .. }: &Fault| format!("{code}: {reason}");
        seen.push(match send(&transport, vec![delivery]).await.expect("answers").as_slice() {
            [Outcome::Ack(_)] => "reached".to_owned(),
            [Outcome::Permanent(fault)] if fault.code == "HTTP.REDIRECT" => "reached".to_owned(),
            [Outcome::Permanent(fault) | Outcome::Retryable(fault) | Outcome::Blocked { fault, .. }] => told(fault),
            other => panic!("{other:?}"),
        });
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_connected_to_who_isnt_granted() {
    let cases = cases();
    assert!(cases.len() >= 60, "{}", cases.len());
    let bench = Bench::start().await;
    let mut wrong = Vec::new();
    let ways = [
        ("net", guests::REACHES_BY_NET),
        ("http", guests::REACHES_BY_HTTP),
        ("net-blocking and http-blocking", guests::REACHES_BY_BLOCKING),
        ("wasi:http", guests::REACHES_BY_WASI_HTTP),
    ];
    for (way, path) in ways {
        let plugin = bench.load(path).await;
        for case in &cases {
            wrong.extend(bench.run(case, way, async |case: &Case| by_guest(&plugin, case).await).await);
        }
    }
    let http = PluginSource::Embedded(waybill_bundled::find("http").expect("bundled").component);
    let http = bench.sandbox.load(http, World::Transport).await.expect("loads");
    for case in &cases {
        wrong.extend(bench.run(case, "an http: topic", async |case: &Case| by_topic(&http, case).await).await);
    }
    // Closed, whoever is aimed at.
    let sockets = bench.load(guests::REACHES_BY_WASI_SOCKETS).await;
    for case in &cases {
        let closed = Case { expected: "any".to_owned(), dials: BTreeSet::new(), ..case.clone() };
        let tried = async |case: &Case| {
            let seen = by_guest(&sockets, case).await;
            assert!(seen.iter().all(|one| !one.contains("reached")), "{seen:?}");
            Vec::new()
        };
        wrong.extend(bench.run(&closed, "wasi:sockets", tried).await);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A proxy of the environment would see every peer, and reach what we don't let anybody reach. The environment can't be changed
/// inside a process, so the test runs once more as one that has it.
#[tokio::test(flavor = "multi_thread")]
async fn proxies_of_the_environment_are_ignored() {
    const INSIDE: &str = "WAYBILL_TEST_BEHIND_A_PROXY";
    let Ok(address) = std::env::var(INSIDE) else {
        let (server, proxy) = (support::Server::start(), support::Server::start());
        let at = format!("http://{}", proxy.address);
        let status = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "network::proxies_of_the_environment_are_ignored"])
            .env(INSIDE, server.address.to_string())
            .envs(
                ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"]
                    .map(|name| (name, &at)),
            )
            .env_remove("no_proxy")
            .env_remove("NO_PROXY")
            .stdout(std::process::Stdio::null())
            .status()
            .await
            .unwrap();
        assert!(status.success());
        assert_eq!((server.connects().await, proxy.connects().await), (2, 0));
        return;
    };
    let granted = [format!("http://{address}")];
    let granted: Vec<&str> = granted.iter().map(String::as_str).collect();
    for path in [guests::REACHES_BY_HTTP, guests::REACHES_BY_WASI_HTTP] {
        let transport = support::start(path, support::granting(json!({ "address": address }), &granted)).await;
        assert!(support::seen(&transport).await.contains("reached 204"));
    }
}
