//! What others on the machine and on the network get to see of a host: files, clear text, certificates, the log.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::process::Signal;
use serde_json::{Value, json};
use waybill_cli::exit::Exit;

use crate::configuration::{case, refused};
use crate::serve::{Host, PATIENCE, ask, noop};
use crate::support::waybill;

/// A token that could be random.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Everything below a folder, the folder too, with its permissions.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut open = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        found.push((path.clone(), metadata.permissions().mode() & 0o7777));
        if metadata.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_a_host_makes_is_its_owners_alone_whatever_the_umask() {
    for umask in ["022", "000"] {
        let dir = tempfile::tempdir().unwrap();
        let config = noop(dir.path());
        let data = dir.path().join("data");
        let start = || {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &format!("umask {umask}; exec \"$0\" serve --config \"$1\"")]);
            shell.args([env!("CARGO_BIN_EXE_waybill"), &config]);
            Host::run(dir.path(), shell)
        };
        let mut host = start();
        let url = host.url();
        host.says("INFO ready");
        for number in 0..20 {
            let payload = format!("{{\"order\":{number}}}");
            let sent = ask(&url, &["send", "--topic", "bus:orders.created", "--payload", &payload]);
            assert_eq!(sent.exit, Exit::Done, "{}", sent.err);
        }
        host.signal(Signal::TERM);
        assert!(host.ended().0.success());
        let check = || {
            let made: Vec<(PathBuf, u32)> = modes(&data).into_iter().chain(modes(&dir.path().join("cache"))).collect();
            assert!(made.len() > 8, "{made:#?}");
            let open: Vec<String> = made
                .iter()
                .filter(|(_, mode)| mode & 0o077 != 0)
                .map(|(path, mode)| format!("{mode:04o} {}", path.display()))
                .collect();
            assert!(open.is_empty(), "umask {umask}: {open:#?}");
        };
        check();
        // As an earlier version left it.
        chmod(&data, 0o755);
        let doctor = waybill(&["doctor", "--config", &config]).run();
        assert!(doctor.out.contains("mode 0755") && doctor.out.contains("chmod 700"), "{}", doctor.out);
        let mut host = start();
        host.says("was open to others on this machine");
        host.says("INFO ready");
        host.signal(Signal::TERM);
        assert!(host.ended().0.success());
        check();
    }
}

/// Ends a host in good order; answers all it said.
fn end(mut host: Host) -> String {
    host.says("INFO ready");
    host.signal(Signal::TERM);
    let (status, told) = host.ended();
    assert!(status.success(), "{told}");
    told
}

/// Earlier versions made folders by the umask.
#[test]
fn folders_of_an_earlier_version_are_closed_and_the_cache_in_them_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let start = || Host::start(dir.path(), &["--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    end(start());
    let key = std::fs::read(data.join("store/seal.key")).unwrap();
    let folders = [data.join("store"), data.join("cache"), data.join("cache/generations")];
    folders.iter().for_each(|folder| chmod(folder, 0o775));
    let told = end(start());
    assert!(told.contains("was open to others") && !told.contains("PLUGIN.CACHE"), "{told}");
    for folder in &folders {
        assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o7777, 0o700, "{}", folder.display());
    }
    assert_eq!(std::fs::read(data.join("store/seal.key")).unwrap(), key);
}

#[test]
fn a_cache_that_cant_be_believed_is_done_without() {
    let dir = tempfile::tempdir().unwrap();
    let (config, cache) = (noop(dir.path()), dir.path().join("cache"));
    std::fs::create_dir(&cache).unwrap();
    // It was named, so it may have other uses.
    chmod(&cache, 0o777);
    let told = end(Host::start(dir.path(), &["--config", &config]));
    assert!(told.contains("PLUGIN.CACHE") && told.contains("goes on without a compile cache"), "{told}");
    assert_eq!(modes(&cache), [(cache.clone(), 0o777)], "nothing is put there");
}

/// Commands that run plugins do without the cache of their user as a host does without its own.
#[test]
fn commands_do_without_a_cache_that_cant_be_believed() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join(".cache/waybill/plugins");
    std::fs::create_dir_all(&cache).unwrap();
    chmod(&cache, 0o777);
    let http = home.path().join("http.wasm");
    std::fs::write(&http, waybill_bundled::find("http").unwrap().component).unwrap();
    let run = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_waybill"));
        let done = program.args(arguments).current_dir(&home).env_clear().env("HOME", home.path()).output().unwrap();
        let told = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(told.contains("PLUGIN.CACHE") && told.contains("goes on without a compile cache"), "{told}");
        assert_eq!(modes(&cache), [(cache.clone(), 0o777)], "nothing is put there");
        (done.status.code(), told)
    };
    let (code, told) = run(&["plugin", "test", "noop"]);
    assert_eq!(code, Some(Exit::Done as i32), "{told}");
    // It is looked at, and found to be no participant.
    let (code, told) = run(&["plugin", "call", http.to_str().unwrap(), "reserve"]);
    assert!(code == Some(Exit::Usage as i32) && told.contains("PLUGIN.OTHER_WORLD"), "{told}");
}

/// Root in a workspace of somebody else's, as in containers. Only root can try.
#[test]
fn a_data_folder_of_another_user_is_used_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let nobody = Some(65_534);
    if let Err(error) = std::os::unix::fs::chown(&data, nobody, nobody) {
        eprintln!("not checked: not root ({error})");
        return;
    }
    let start = || Host::start(dir.path(), &["--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    for _ in 0..2 {
        let told = end(start());
        assert!(told.contains("goes on without a compile cache") && told.contains("user 65534"), "{told}");
    }
}

/// A folder with a certificate and a configuration that uses it.
struct Secured {
    dir: tempfile::TempDir,
    config: String,
}

impl Secured {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = noop(dir.path());
        std::fs::write(dir.path().join("token"), TOKEN).unwrap();
        chmod(&dir.path().join("token"), 0o600);
        let text = std::fs::read_to_string(&config).unwrap();
        let tls = "tls = { cert = \"cert.pem\", key = \"key.pem\" }\nlisten = \"127.0.0.1:0\"";
        let token = "[[auth.token]]\nname = \"ops\"\ntoken_file = \"token\"\nroles = [\"admin\"]\n";
        std::fs::write(&config, format!("{}{token}", text.replace("listen = \"127.0.0.1:0\"", tls))).unwrap();
        let secured = Self { dir, config };
        secured.renew("first.pem");
        secured
    }
    /// Another certificate and key in the same files; the certificate lies in `copy` too.
    fn renew(&self, copy: &str) -> String {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(self.path("cert.pem"), cert.pem()).unwrap();
        std::fs::write(self.path("key.pem"), signing_key.serialize_pem()).unwrap();
        chmod(&self.path("key.pem"), 0o600);
        std::fs::write(self.path(copy), cert.pem()).unwrap();
        self.path(copy).display().to_string()
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

#[test]
fn a_host_with_a_certificate_speaks_tls_and_renews_it_with_a_reload() {
    let secured = Secured::new();
    let (first, token) = (secured.path("first.pem").display().to_string(), secured.path("token").display().to_string());
    let mut host = Host::start(secured.dir.path(), &["--config", &secured.config]);
    let url = host.url().replace("127.0.0.1", "localhost");
    assert!(url.starts_with("https://"), "{url}");
    let asks = |ca: &str, command: &[&str]| {
        let mut all = vec!["--ca", ca, "--token-file", &token];
        all.extend(command);
        ask(&url, &all)
    };
    let seen = asks(&first, &["outbox", "stats"]);
    assert!(seen.exit == Exit::Done && !seen.err.contains("warning"), "{seen:?}");
    let by_env =
        waybill(&["outbox", "stats", "--url", &url]).env("WAYBILL_CA", &first).env("WAYBILL_TOKEN", TOKEN).run();
    assert_eq!(by_env.exit, Exit::Done, "{}", by_env.err);
    let unknown = ask(&url, &["status"]);
    assert_eq!(unknown.exit, Exit::Unreachable);
    assert!(unknown.err.contains("CLIENT.TLS") && unknown.err.contains("--ca FILE"), "{}", unknown.err);
    // Its own machine asks by an address that no certificate is for, and says nothing secret; others believe what they always do.
    let address = url.replace("https://localhost", "127.0.0.1");
    let health = waybill(&["health", "--config", &secured.config]).env("WAYBILL_SERVER_LISTEN", &address).run();
    assert_eq!(health.out, format!("ok: https://{address}/livez\n"), "{}", health.err);
    let unknown = ask(&url, &["health"]);
    assert!(unknown.exit == Exit::Failed && unknown.err.contains("CLIENT.TLS"), "{}", unknown.err);
    let second = secured.renew("second.pem");
    assert_eq!(asks(&second, &["outbox", "stats"]).exit, Exit::Unreachable, "nobody has said that it should count");
    let reloaded = asks(&first, &["config", "reload"]);
    assert_eq!(reloaded.exit, Exit::Done, "{}", reloaded.err);
    assert_eq!(asks(&second, &["outbox", "stats"]).exit, Exit::Done);
    assert_eq!(asks(&first, &["outbox", "stats"]).exit, Exit::Unreachable);
    std::fs::write(secured.path("key.pem"), "nonsense").unwrap();
    let refused = asks(&second, &["config", "reload"]);
    assert_eq!(refused.exit, Exit::Usage, "{}", refused.err);
    assert!(refused.err.contains("CONFIG.TLS") && refused.err.contains("key.pem"), "{}", refused.err);
    assert_eq!(asks(&second, &["outbox", "stats"]).exit, Exit::Done, "what served goes on");
    let third = secured.renew("third.pem");
    let text = std::fs::read_to_string(&secured.config).unwrap();
    for name in ["cert.pem", "key.pem"] {
        std::fs::rename(secured.path(name), secured.path(&format!("moved-{name}"))).unwrap();
    }
    let moved = text.replace("\"cert.pem\"", "\"moved-cert.pem\"").replace("\"key.pem\"", "\"moved-key.pem\"");
    std::fs::write(&secured.config, moved).unwrap();
    let reloaded = asks(&second, &["config", "reload"]);
    assert_eq!(reloaded.exit, Exit::Done, "{}", reloaded.err);
    assert_eq!(asks(&third, &["outbox", "stats"]).exit, Exit::Done, "the files are where the configuration says");
    host.signal(Signal::TERM);
    assert!(host.ended().0.success());
}

#[test]
fn a_certificate_that_cannot_be_used_keeps_a_host_from_starting() {
    let secured = Secured::new();
    chmod(&secured.path("key.pem"), 0o644);
    let warned = waybill(&["config", "check", "--config", &secured.config]).run();
    assert_eq!(warned.exit, Exit::Done, "{}", warned.err);
    assert!(warned.err.contains("server.tls.key: others on this machine may read"), "{}", warned.err);
    std::fs::copy(secured.path("key.pem"), secured.path("other.pem")).unwrap();
    let cert = std::fs::read(secured.path("cert.pem")).unwrap();
    secured.renew("second.pem");
    std::fs::write(secured.path("cert.pem"), cert).unwrap();
    for command in ["config check", "serve", "doctor"] {
        let (exit, told) = match command {
            "serve" => {
                let (status, told) = Host::start(secured.dir.path(), &["--config", &secured.config]).ended();
                (status.code(), told)
            }
            command => {
                let words: Vec<&str> = command.split(' ').chain(["--config", &secured.config]).collect();
                let done = waybill(&words).run();
                (Some(done.exit as i32), done.all())
            }
        };
        let expected = if command == "doctor" { Exit::Failed } else { Exit::Usage };
        assert_eq!(exit, Some(expected as i32), "{command}: {told}");
        assert!(told.contains("CONFIG.TLS") && told.contains("isn't the key of the certificate"), "{command}: {told}");
    }
    assert!(!secured.path("data").exists());
}

#[test]
fn a_token_over_clear_text_to_another_machine_is_warned_about() {
    // Nobody is asked there: the addresses are for documents.
    let warned = |url: &str| {
        let command = waybill(&["status", "--url", url, "--timeout", "50ms"]).env("WAYBILL_TOKEN", TOKEN);
        command.run().err.contains("in clear text")
    };
    assert!(warned("http://192.0.2.1:7070") && warned("http://waybill.invalid:7070"));
    assert!(!warned("https://192.0.2.1:7070"));
    for here in ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"] {
        assert!(!warned(here), "{here}");
    }
    let without = waybill(&["status", "--url", "http://192.0.2.1:7070", "--timeout", "50ms"]).run();
    assert!(!without.err.contains("clear text"));
}

#[test]
fn refused_callers_are_counted_and_logged_with_address_and_route() {
    let dir = tempfile::tempdir().unwrap();
    let config = noop(dir.path());
    std::fs::write(dir.path().join("token"), TOKEN).unwrap();
    let text = std::fs::read_to_string(&config).unwrap();
    let token = "[[auth.token]]\nname = \"ops\"\ntoken_file = \"token\"\nroles = [\"viewer\"]\n";
    std::fs::write(&config, format!("{text}{token}")).unwrap();
    let mut host = Host::start(dir.path(), &["--config", &config]);
    let url = host.url();
    host.says("INFO ready");
    for _ in 0..3 {
        assert_eq!(ask(&url, &["outbox", "show", "order-17"]).exit, Exit::NotAllowed);
    }
    let line = host.says("a caller was refused");
    for word in ["AUTH.REQUIRED", "127.0.0.1:", "/v1/messages/{id}"] {
        assert!(line.contains(word), "{word} isn't in {line}");
    }
    assert!(!line.contains("order-17"));
    let metrics = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let answer = reqwest::Client::new().get(format!("{url}/metrics")).bearer_auth(TOKEN).send().await.unwrap();
        answer.text().await.unwrap()
    });
    let counted = "waybill_http_refusals_total{code=\"AUTH.REQUIRED\",route=\"/v1/messages/{id}\"} 3";
    assert!(metrics.contains(counted), "{metrics}");
}

/// A host without tokens, which is asked as a program of this machine asks.
struct Local {
    client: reqwest::Client,
    url: String,
    port: String,
}

impl Local {
    async fn posts(&self, path: &str, body: Value) {
        let answer = self.client.post(format!("{}{path}", self.url)).json(&body).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
    }

    /// Asks until the answer has something that names the transport, if one is given, and says that an address of this name is the
    /// host's own.
    async fn refuses(&self, path: &str, name: &str, transport: Option<&str>) {
        let words = format!("http://{name}:{0} leads to 127.0.0.1:{0}, where this host itself listens", self.port);
        let mut last = Value::Null;
        let told = async {
            loop {
                let answer = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
                last = answer.json().await.unwrap();
                let holds = |item: &Value| {
                    transport.is_none_or(|name| item["transport"] == name) && item.to_string().contains(&words)
                };
                if last["items"].as_array().map_or_else(|| holds(&last), |items| items.iter().any(holds)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, told).await.is_err() {
            panic!("{path} never said {words:?}: {last:#}");
        }
    }

    async fn sends(&self, name: &str, transport: &str) {
        let topic = format!("http://{name}:{}/v1/transactions", self.port);
        let statement = json!({ "statements": [{ "query": "CREATE intruder:1" }] });
        self.posts("/v1/messages", json!({ "topic": topic, "payload": statement })).await;
        self.refuses("/v1/outbox/blocked", name, Some(transport)).await;
    }

    async fn runs(&self, saga: &str, name: &str) {
        let url = format!("http://{name}:{}/v1/transactions", self.port);
        let step = json!({ "name": "intrude", "action": url, "compensation": url });
        self.posts("/v1/saga-definitions", json!({ "name": saga, "version": 1, "steps": [step] })).await;
        self.posts("/v1/sagas", json!({ "definition": saga, "id": saga })).await;
        self.refuses(&format!("/v1/sagas/{saga}"), name, None).await;
    }
}

/// Whoever may send a message or start a saga would otherwise speak to the API as a program of this machine. The host itself has to
/// know where it listens: of plugins, of steps over HTTP, and of both when they are made anew by a reload.
#[test]
fn the_hosts_own_listener_is_no_target_of_messages_and_sagas() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("waybill.toml");
    let local = "plugin = \"http\"\nallow = { http = [\"http://localhost:*\", \"http://127.0.0.0/8:*\"] }\n";
    let text = format!(
        "[store]\nurl = \"mem://\"\n[server]\nlisten = \"127.0.0.1:0\"\n[plugins]\ncache = \"./cache\"\n[transport.first]\n{local}"
    );
    let route = |transport: &str| format!("[[route]]\nmatch = \"http:**\"\ntransport = \"{transport}\"\n");
    std::fs::write(&config, format!("{text}{}", route("first"))).unwrap();
    let mut host = Host::start(dir.path(), &["--config", config.to_str().unwrap()]);
    let url = host.url();
    host.says("INFO ready");
    let port = url.rsplit_once(':').unwrap().1.to_owned();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let host = Local { client: reqwest::Client::new(), url, port };
        host.sends("127.0.0.1", "first").await;
        host.sends("localhost", "first").await;
        host.runs("before", "127.0.0.1").await;
        // Another transport, and another client of the steps: what the first found out about an origin is no use to them.
        let next = format!("{text}[transport.second]\n{local}[saga]\nmax_calls = 200\n{}", route("second"));
        std::fs::write(&config, next).unwrap();
        host.posts("/v1/config/reload", json!({})).await;
        host.sends("127.0.0.1", "second").await;
        host.runs("after", "localhost").await;
    });
}

/// Nobody is let in without a token because of a file that can't be read: what is wrong is the file.
#[test]
fn a_token_that_cannot_be_read_is_told_once() {
    let token = "[[auth.token]]\nname = \"ops\"\ntoken_file = \"gone\"\n";
    for server in ["listen = \"0.0.0.0:7070\"\nbehind_tls_proxy = true", "behind_tls_proxy = true"] {
        let error = refused(&format!("[server]\n{server}\n{token}"));
        assert!(error.contains("CONFIG.SECRET") && !error.contains("CONFIG.LISTEN"), "{error}");
    }
}

#[test]
fn a_token_is_asked_for_where_others_reach_the_host_or_one_is_configured_unless_it_says_otherwise() {
    let token =
        "[[auth.token]]\nname = \"a\"\nsha256 = \"d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272\"\n";
    let open = "[server]\nlisten = \"0.0.0.0:7070\"\nbehind_tls_proxy = true\n";
    for (toml, required, by) in [
        (String::new(), false, "default"),
        (token.to_owned(), true, "default"),
        (open.to_owned(), true, "default"),
        ("[server]\nbehind_tls_proxy = true\n".to_owned(), true, "default"),
        ("[auth]\nrequired = true\n".to_owned(), true, "waybill.toml:2:12"),
        (format!("[auth]\nrequired = false\n{token}"), false, "waybill.toml:2:12"),
    ] {
        let config = case(&toml).load().unwrap();
        assert_eq!(config.auth.required, required, "{toml}");
        let shown: Vec<_> = config.shown.iter().filter(|shown| shown.path == "auth.required").collect();
        let [shown] = shown.as_slice() else { panic!("{toml}: {shown:?}") };
        assert_eq!(shown.value, required, "{toml}");
        assert!(shown.origin.to_string().ends_with(by), "{toml}: {}", shown.origin);
        // With nobody asked, only this machine's programs send, and what listens here gets what they send.
        assert_eq!(config.transports.is_empty(), required, "{toml}");
        let is_warned = config.warnings.iter().any(|warning| warning.contains("[[auth.token]]: nobody is asked"));
        assert_eq!(is_warned, !required && !config.auth.tokens.is_empty(), "{toml}: {:?}", config.warnings);
    }
    assert!(case("").env("WAYBILL_AUTH_REQUIRED", "true").load().unwrap().auth.required);
}

/// What listens on loopback often trusts whoever gets there: with tokens, that would be everybody who may send.
#[test]
fn with_tokens_no_transport_is_implied() {
    let token = format!("[store]\nurl = \"mem://\"\n[[auth.token]]\nname = \"app\"\nsha256 = \"{}\"\n", "0".repeat(64));
    let config = case(&token).load().unwrap();
    assert!(config.transports.is_empty() && config.routes.0.is_empty(), "{:?}", config.transports);
    let warning = config.warnings.iter().find(|warning| warning.contains("a host with tokens implies none"));
    let warning = warning.unwrap_or_else(|| panic!("{:?}", config.warnings));
    for part in ["[transport.http]", "plugin = \"http\"", "allow = {", "[[route]]", "match = \"http:**\""] {
        assert!(warning.contains(part), "{warning}");
    }
    let written = "[transport.web]\nplugin = \"http\"\n[[route]]\nmatch = \"http:**\"\ntransport = \"web\"\n";
    let config = case(&format!("{token}{written}")).load().unwrap();
    assert_eq!(config.transports.len(), 1);
    assert!(!config.warnings.iter().any(|warning| warning.contains("implies none")), "{:?}", config.warnings);
}
