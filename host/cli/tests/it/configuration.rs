//! The configuration: what is taken, what is refused and how, and where each value comes from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use waybill_cli::config::problem::{ConfigError, Origin};
use waybill_cli::config::reader::Flag;
use waybill_cli::config::{Config, Inputs, OnDead, StoreKind, load};
use waybill_core::endpoint::PluginRef;
use waybill_core::outbox::rates::Rate;
use waybill_server::auth::Role;

pub struct Case {
    dir: tempfile::TempDir,
    env: BTreeMap<String, String>,
    flags: Vec<Flag>,
}

pub fn case(toml: &str) -> Case {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("waybill.toml"), toml).unwrap();
    Case { dir, env: BTreeMap::new(), flags: Vec::new() }
}

impl Case {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }
    fn file(self, name: &str, content: &[u8]) -> Self {
        std::fs::write(self.dir.path().join(name), content).unwrap();
        self
    }
    fn flag(mut self, path: &'static str, flag: &'static str, value: &str) -> Self {
        self.flags.push(Flag { path, flag, value: value.into() });
        self
    }
    fn path(&self) -> PathBuf {
        self.dir.path().join("waybill.toml")
    }
    pub fn load(&self) -> Result<Config, ConfigError> {
        load(&Inputs {
            file: Some(self.path()),
            env: self.env.clone(),
            flags: self.flags.clone(),
            data: Some("/var/lib/waybill-test".into()),
            cache: None,
            bundled: vec!["backoff-fibonacci", "http", "noop", "nats-source", "postgres", "nats"],
        })
    }
    /// The text of the error, with the folder taken out.
    fn error(&self) -> String {
        let error = self.load().map(drop).expect_err("it should be refused").to_string();
        error.replace(&format!("{}/", self.dir.path().display()), "")
    }
}

pub fn refused(toml: &str) -> String {
    case(toml).error()
}

/// Code and place of the first problem, and words that its text has to hold.
#[test]
fn every_kind_of_bad_input_has_its_code_place_and_fix() {
    let token = "sha256 = \"d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272\"";
    let table: &[(&str, &str, &str, &str)] = &[
        ("[outbox]\nbach = 5\n", "CONFIG.UNKNOWN_KEY", "waybill.toml:2:1", "did you mean \"batch\"?"),
        ("[outbox.backoff]\nbase = 5\n", "CONFIG.UNKNOWN_KEY", "waybill.toml:2:1", "base_ms"),
        ("[outbux]\nbatch = 5\n", "CONFIG.UNKNOWN_SECTION", "waybill.toml:1:2", "did you mean \"outbox\"?"),
        ("batch = 5\n", "CONFIG.UNKNOWN_SECTION", "waybill.toml:1:1", "known: store"),
        ("[saga]\nmax_input_bytes = \"5MiB\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:19", "4MiB"),
        ("[tx.saga]\nheartbeat_ms = 5\n", "CONFIG.BAD_VALUE", "waybill.toml:2:16", "at least 1s"),
        (
            "[saga.default_retry]\nbase_ms = 500\ncap_ms = 100\n",
            "CONFIG.BAD_VALUE",
            "waybill.toml:1:7",
            "below base_ms",
        ),
        ("[saga]\napproval_key = \"s3cret\"\n", "CONFIG.SECRET", "waybill.toml:2:16", "env:NAME"),
        ("[saga]\npublic_url = \"waybill.example\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:14", "https://"),
        ("[saga]\npublic_url = \"https://a/?b\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:14", "without a query"),
        ("[saga]\ndefinition = \"sagas\"\n", "CONFIG.UNKNOWN_KEY", "waybill.toml:2:1", "did you mean \"definitions\"?"),
        ("[idempotency]\nstore = \"both\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:9", "\"result\" or \"digest\""),
        ("[idempotency]\nlease = \"1ms\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:9", "at least 100ms"),
        ("[idempotency]\nresult_max_bytes = \"1MiB\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:20", "256KiB"),
        ("[idempotency]\nrequire = 1\n", "CONFIG.WRONG_TYPE", "waybill.toml:2:11", "true or false"),
        ("[idempotency]\nttls = \"1h\"\n", "CONFIG.UNKNOWN_KEY", "waybill.toml:2:1", "did you mean \"ttl\"?"),
        ("[inbox]\ndedup_window = \"7d\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:16", "dead.keep = \"30days\""),
        ("[inbox]\ndedup_window = \"119s\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:16", "at least 2m"),
        ("[dead]\nkeep = \"60d\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:8", "set inbox.dedup_window to"),
        ("[inbox]\nack_wait = \"7d\"\n", "CONFIG.UNKNOWN_KEY", "waybill.toml:2:1", "dedup_window"),
        ("[idempo]\nttl_ms = 1\n[tx.idempo]\nttl_ms = 2\n", "CONFIG.DUPLICATE", "waybill.toml:3:5", "[tx.idempo]"),
        ("[otel]\nendpoint = \"collector:4317\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:12", "http:// or https://"),
        ("[otel]\nprotocol = \"http/json\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:12", "or \"grpc\""),
        ("[otel]\nsample_ratio = 2.0\n", "CONFIG.BAD_VALUE", "waybill.toml:2:16", "0.0 to 1.0"),
        ("[otel]\nheaders = { authorization = \"s3cret\" }\n", "CONFIG.SECRET", "waybill.toml:2:29", "env:NAME"),
        ("[outbox]\nbatch = \"many\"\n", "CONFIG.WRONG_TYPE", "waybill.toml:2:9", "an integer from 1 to 10000"),
        ("[outbox]\nbatch = 0\n", "CONFIG.BAD_VALUE", "waybill.toml:2:9", "1 to 10000"),
        ("[outbox]\nbatch = -3\n", "CONFIG.BAD_VALUE", "waybill.toml:2:9", "-3"),
        ("[outbox]\nkeep_done = 5\n", "CONFIG.WRONG_TYPE", "waybill.toml:2:13", "keep_done_ms = 10000"),
        ("[outbox]\nkeep_done = \"5 parsecs\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:13", "ms, s, m, h or d"),
        ("[outbox]\nowner_ttl = \"10ms\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:13", "at least 1s"),
        ("[outbox]\nlease_ms = \"10s\"\n", "CONFIG.WRONG_TYPE", "waybill.toml:2:12", "an integer"),
        ("[outbox]\nmax_payload_bytes = \"1 cup\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:21", "KiB, MiB or GiB"),
        ("[outbox.backoff]\njitter = 2.0\n", "CONFIG.BAD_VALUE", "waybill.toml:2:10", "0.0 to 1.0"),
        (
            "[outbox.backoff]\nbase_ms = 500\ncap_ms = 100\n",
            "CONFIG.BAD_VALUE",
            "waybill.toml:1:9",
            "below base_ms = 500",
        ),
        ("[outbox]\nbackoff = \"fast\"\n", "CONFIG.WRONG_TYPE", "waybill.toml:2:11", "a table"),
        ("outbox = 5\n", "CONFIG.WRONG_TYPE", "waybill.toml:1:1", "[outbox]"),
        ("[route]\nmatch = \"bus:**\"\n", "CONFIG.WRONG_TYPE", "waybill.toml:1:2", "[[route]]"),
        ("[outbox\nbatch = 5\n", "CONFIG.SYNTAX", "waybill.toml:1:8", "isn't TOML"),
        ("[outbox]\nbatch = 5\nbatch = 6\n", "CONFIG.DUPLICATE", "waybill.toml:3:1", "twice"),
        ("[outbox]\nowner_ttl = \"10s\"\nlease_ms = 10000\n", "CONFIG.DUPLICATE", "waybill.toml:3:1", "same setting"),
        ("[outbox]\nbatch = 1\n[tx.outbox]\nbatch = 2\n", "CONFIG.DUPLICATE", "waybill.toml:3:5", "same section"),
        (
            "[transport.a]\nplugin = \"noop\"\n[transport.a]\nplugin = \"http\"\n",
            "CONFIG.DUPLICATE",
            "waybill.toml:3:12",
            "\"a\" is there twice",
        ),
        ("[[tenant]]\nname = \"acme\"\n[[tenant]]\nname = \"acme\"\n", "CONFIG.DUPLICATE", "waybill.toml:4:8", "acme"),
        ("[[tenant]]\nweight = 2\n", "CONFIG.MISSING", "waybill.toml:1:1", "write name = \"acme\""),
        ("[[tenant]]\nname = \"a\\nb\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:8", "control character"),
        ("[[tenant]]\nname = \"a\"\nburst = 5\n", "CONFIG.BAD_VALUE", "waybill.toml:1:1", "no effect without rate"),
        ("[[tenant]]\nname = \"a\"\nrate = 0\n", "CONFIG.BAD_VALUE", "waybill.toml:3:8", "1 to 1000000"),
        ("[audit]\nkeep = \"1h\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:8", "at least 1day"),
        ("[transport.a]\nplugin = \"noop\"\nmessage_id = \"x\"\n", "CONFIG.BAD_VALUE", "waybill.toml:3:14", "one id"),
        ("[transport.a]\ninstances = 2\n", "CONFIG.MISSING", "waybill.toml:1:12", "plugin"),
        ("[transport.a]\nplugin = \"htpp\"\n", "CONFIG.PLUGIN_MISSING", "waybill.toml:2:10", "did you mean \"http\"?"),
        (
            "[transport.a]\nplugin = \"kafka\"\n",
            "CONFIG.PLUGIN_MISSING",
            "waybill.toml:2:10",
            "backoff-fibonacci, http, noop",
        ),
        (
            "[transport.a]\nplugin = \"./gone.wasm\"\n",
            "CONFIG.PLUGIN_MISSING",
            "waybill.toml:2:10",
            "gone.wasm: No such file",
        ),
        ("[transport.a]\nplugin = \"oci://x/y@sha256:1\"\n", "CONFIG.PLUGIN_MISSING", "waybill.toml:2:10", "registry"),
        ("[transport.A]\nplugin = \"noop\"\n", "CONFIG.BAD_VALUE", "waybill.toml:1:12", "a-z"),
        (
            "[transport.a]\nplugin = \"noop\"\nreload = \"never\"\n",
            "CONFIG.BAD_VALUE",
            "waybill.toml:3:10",
            "stop-start",
        ),
        (
            "[outbox.backoff]\nplugin = \"backof-fibonacci\"\n",
            "CONFIG.PLUGIN_MISSING",
            "waybill.toml:2:10",
            "backoff-fibonacci",
        ),
        (
            "[[route]]\nmatch = \"bus:**\"\ntransport = \"a\"\n",
            "CONFIG.UNKNOWN_TRANSPORT",
            "waybill.toml:3:13",
            "add [transport.a]",
        ),
        (
            "[transport.orders-nats]\nplugin = \"noop\"\n[[route]]\nmatch = \"bus:**\"\ntransport = \"orders-nat\"\n",
            "CONFIG.UNKNOWN_TRANSPORT",
            "waybill.toml:5:13",
            "did you mean \"orders-nats\"?",
        ),
        (
            "[transport.a]\nplugin = \"noop\"\n[[route]]\nmatch = \"kafka:x\"\ntransport = \"a\"\n",
            "CONFIG.BAD_VALUE",
            "waybill.toml:4:9",
            "http:, bus: or custom:",
        ),
        (
            "[transport.a]\nplugin = \"noop\"\n[[route]]\nmatch = \"bus:x\"\ntransport = \"a\"\n[[route]]\nmatch = \"bus:x\"\ntransport = \"a\"\n",
            "CONFIG.DUPLICATE",
            "waybill.toml:7:9",
            "never be used",
        ),
        ("[[route]]\ntransport = \"a\"\n", "CONFIG.MISSING", "waybill.toml:1:1", "match"),
        (
            "[transport.a]\nplugin = \"noop\"\nsecrets = { token = \"s3cr3t-value\" }\n",
            "CONFIG.SECRET",
            "waybill.toml:3:21",
            "env:NAME",
        ),
        (
            "[transport.a]\nplugin = \"noop\"\nsecrets = { token = \"env:NOT_SET_ANYWHERE\" }\n",
            "CONFIG.SECRET",
            "waybill.toml:3:21",
            "isn't set",
        ),
        (
            "[transport.a]\nplugin = \"noop\"\nsecrets = { token = \"file:gone\" }\n",
            "CONFIG.SECRET",
            "waybill.toml:3:21",
            "No such file",
        ),
        ("[store]\nurl = \"ws://root:hunter2@db:8000\"\n", "CONFIG.SECRET", "waybill.toml:2:7", "store.password"),
        ("[store]\nurl = \"postgres://db\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:7", "surrealkv://DIR"),
        ("[store]\nurl = \"tikv://pd:2379\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:7", "no TiKV"),
        ("[store]\nurl = \"surrealkv://./d?sync=evry\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:7", "sync=every"),
        ("[store]\nmemtable = \"1MiB\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:12", "8MiB"),
        ("[store]\nuser = \"root\"\n", "CONFIG.BAD_VALUE", "waybill.toml:1:2", "has users"),
        ("[store]\nurl = \"ws://db:8000\"\nuser = \"root\"\n", "CONFIG.MISSING", "waybill.toml:1:2", "password"),
        ("[server]\nlisten = \"everywhere\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:10", "127.0.0.1:7070"),
        (
            "[server]\nlisten = \"0.0.0.0:7070\"\n[auth]\nrequired = false\n",
            "CONFIG.LISTEN",
            "waybill.toml:2:10",
            "[auth] required",
        ),
        (
            "[server]\nlisten = \"[::]:7070\"\n[auth]\nrequired = false\n",
            "CONFIG.LISTEN",
            "waybill.toml:2:10",
            "127.0.0.1",
        ),
        (
            "[server]\nbehind_tls_proxy = true\n[auth]\nrequired = false\n",
            "CONFIG.LISTEN",
            "waybill.toml:2:20",
            "whoever reaches the proxy",
        ),
        ("[auth]\nrequired = \"perhaps\"\n", "CONFIG.WRONG_TYPE", "waybill.toml:2:12", "auth.required"),
        ("[server]\ntls = { cert = \"a.pem\" }\n", "CONFIG.MISSING", "waybill.toml:2:1", "write key ="),
        ("[server.tls]\nkey = \"a.pem\"\n", "CONFIG.MISSING", "waybill.toml:1:9", "write cert ="),
        ("[server.tls]\ncertificate = \"a\"\n", "CONFIG.UNKNOWN_KEY", "waybill.toml:2:1", "cert"),
        ("[server]\nwrite_timeout = \"10ms\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:17", "at least 1s"),
        ("[server]\nmax_connections_per_peer = 0\n", "CONFIG.BAD_VALUE", "waybill.toml:2:28", "1 to 1000000"),
        ("[auth]\ntokens = []\n", "CONFIG.UNKNOWN_KEY", "waybill.toml:2:1", "did you mean \"token\"?"),
        ("[[auth.token]]\nname = \"a\"\n", "CONFIG.MISSING", "waybill.toml:1:1", "sha256"),
        (
            "[[auth.token]]\nname = \"a\"\nsha256 = \"abc\"\n",
            "CONFIG.BAD_VALUE",
            "waybill.toml:3:10",
            "64 hexadecimal digits",
        ),
        ("[[auth.token]]\nname = \"a\"\ntoken_file = \"gone\"\n", "CONFIG.SECRET", "waybill.toml:3:14", "No such file"),
        ("[log]\nlevel = \"loud\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:9", "error, warn, info"),
        ("[log]\nlevel = \"info,waybill_engine=loud\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:9", "per module"),
        ("[log]\nformat = \"xml\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:10", "\"text\" or \"json\""),
        ("[dead]\non_dead = \"shrug\"\n", "CONFIG.BAD_VALUE", "waybill.toml:2:11", "hold_key"),
    ];
    let mut wrong = Vec::new();
    for (toml, code, at, words) in table {
        let error = refused(toml);
        let right = error.starts_with(&format!("{code}: "))
            && error.lines().any(|line| line.strip_prefix("  at  ") == Some(at))
            && error.contains(words)
            && error.contains("\n  fix ");
        if !right {
            wrong.push(format!("{toml}expected {code} at {at} with {words:?}, got:\n{error}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (roles, words) in [("[\"king\"]", "transactor"), ("[]", "at least one")] {
        let error = refused(&format!("[[auth.token]]\nname = \"a\"\n{token}\nroles = {roles}\n"));
        assert!(error.contains("CONFIG.BAD_VALUE") && error.contains(words), "{error}");
    }
    let twice = refused(&format!("[[auth.token]]\nname = \"a\"\n{token}\n[[auth.token]]\nname = \"b\"\n{token}\n"));
    assert!(twice.contains("CONFIG.DUPLICATE") && twice.contains("are the same"), "{twice}");
}

#[test]
fn a_secret_is_never_in_an_error() {
    for toml in [
        "[transport.a]\nplugin = \"noop\"\nsecrets = { token = \"s3cr3t-value\" }\n",
        "[store]\nurl = \"ws://root:s3cr3t-value@db:8000\"\n",
        "[store]\nurl = \"ws://db:8000\"\nuser = \"root\"\npassword = \"s3cr3t-value\"\n",
        "[transport.a]\nplugin = \"noop\"\nsecrets = \"s3cr3t-value\"\n",
        "[transport.a]\nplugin = \"noop\"\nsecrets = { token = \"s3cr3t-value\n",
    ] {
        let error = refused(toml);
        assert!(!error.contains("s3cr3t-value"), "{error}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let error = refused("[outbox]\nbach = 5\nmax_attempts = 0\n[[route]]\nmatch = \"bus:**\"\ntransport = \"gone\"\n");
    for code in ["CONFIG.UNKNOWN_KEY", "CONFIG.BAD_VALUE", "CONFIG.UNKNOWN_TRANSPORT"] {
        assert!(error.contains(code), "{error}");
    }
}

#[test]
fn a_shared_store_is_told_to_be_a_preview() {
    for (url, told) in [("ws://db:8000", true), ("wss://db:8000", true), ("mem://", false)] {
        let config = case(&format!("[store]\nurl = \"{url}\"\n")).load().unwrap();
        assert_eq!(config.warnings.iter().any(|warning| warning.contains("preview")), told, "{:?}", config.warnings);
    }
}

#[test]
fn sagas_are_configured_and_a_setting_without_effect_is_told() {
    let case = case(
        "[tx.saga]\nheartbeat_ms = 5000\ndefinitions = \"sagas\"\nkeep_done = \"1d\"\n\
         default_retry = { max_attempts = 3, base_ms = 10 }\nallow = { http = [\"https://pay.example\"] }\n",
    );
    let config = case.load().unwrap();
    let saga = &config.saga;
    assert!(saga.definitions.as_ref().unwrap().is_absolute() && saga.definitions.as_ref().unwrap().ends_with("sagas"));
    assert_eq!(
        (saga.keep_done.as_secs(), saga.default_retry.max_attempts, saga.default_retry.base_ms),
        (86_400, 3, 10)
    );
    assert_eq!(saga.default_retry.cap_ms, 60_000);
    assert_eq!(saga.grants.peers, ["https://pay.example"]);
    assert!(config.warnings.iter().any(|warning| warning.contains("saga.heartbeat")), "{:?}", config.warnings);
}

#[test]
fn the_example_of_the_design_is_taken() {
    let case = case(
        r#"
[store]
url = "surrealkv://./data"
namespace = "waybill"
database = "waybill"

[server]
listen = "127.0.0.1:7070"

[outbox]
batch = 50
max_attempts = 12
max_payload_bytes = 262144
keep_done = "24h"
owner_ttl = "10s"
backoff = { base_ms = 500, factor = 2.0, jitter = 0.3, cap_ms = 300000 }

[transport.orders-nats]
plugin = "plugins/nats.wasm"
instances = 1
reload = "overlap"
config = { servers = ["nats://127.0.0.1:4222"], stream = "ORDERS" }
allow = { net = ["tcp://127.0.0.1:4222"] }
secrets = { token = "env:NATS_TOKEN" }

[[route]]
match = "bus:orders.**"
transport = "orders-nats"

[dead]
keep = "30d"
"#,
    )
    .env("NATS_TOKEN", "s3cr3t");
    std::fs::create_dir(case.dir.path().join("plugins")).unwrap();
    let case = case.file("plugins/nats.wasm", b"");
    let config = case.load().unwrap();
    assert_eq!(config.store.kind, StoreKind::Disk(case.dir.path().join("data")));
    assert_eq!(config.outbox.keep_done, Duration::from_secs(24 * 3600));
    assert_eq!(config.dead.keep, Duration::from_secs(30 * 24 * 3600));
    let [transport] = config.transports.as_slice() else { panic!("one transport") };
    assert_eq!(transport.plugin, PluginRef::File(case.dir.path().join("plugins/nats.wasm")));
    assert_eq!(transport.grants.secrets, BTreeMap::from([("token".to_owned(), "env:NATS_TOKEN".to_owned())]));
    assert_eq!(transport.config["servers"][0], "nats://127.0.0.1:4222");
    assert_eq!(transport.grants.peers, ["tcp://127.0.0.1:4222"]);
    assert!(!format!("{config:?}").contains("s3cr3t"));
}

#[test]
fn idempotency_has_its_defaults_and_takes_the_source_documents_names() {
    use waybill_core::idempotency::{Keep, Settings};
    let of = |toml: &str| case(&format!("[store]\nurl = \"mem://\"\n{toml}")).load().unwrap();
    assert_eq!(of("").idempotency, Settings::default());
    assert_eq!(of("").inbox.dedup_window, of("").dead.keep);
    let full = of(
        "[idempotency]\nttl = \"1h\"\nlease = \"5s\"\nresult_max_bytes = 100\nstore = \"digest\"\nrequire = true\ncache_entries = 7\n",
    );
    let wanted = Settings {
        ttl: Duration::from_secs(3600),
        lease: Duration::from_secs(5),
        result_bytes_max: 100,
        keep: Keep::Digest,
        require: true,
        cache_entries: 7,
    };
    assert_eq!(full.idempotency, wanted);
    for section in ["idempo", "tx.idempo", "tx.idempotency"] {
        let theirs = of(&format!("[{section}]\nttl_ms = 60000\nresult_digest_max_bytes = 8192\n"));
        assert_eq!((theirs.idempotency.ttl.as_secs(), theirs.idempotency.result_bytes_max), (60, 8192), "{section}");
    }
    let longer = of("[dead]\nkeep = \"60d\"\n[inbox]\ndedup_window = \"60d\"\n");
    assert_eq!(longer.inbox.dedup_window, Duration::from_secs(60 * 24 * 3600));
}

#[test]
fn without_a_file_there_is_an_embedded_store_and_http_to_this_machine() {
    let config = load(&Inputs {
        data: Some("/home/someone/.local/share/waybill".into()),
        bundled: vec!["http", "noop"],
        ..Inputs::default()
    })
    .unwrap();
    assert_eq!(config.store.kind, StoreKind::Disk("/home/someone/.local/share/waybill/store".into()));
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:7070");
    let [transport] = config.transports.as_slice() else { panic!("one transport") };
    assert_eq!(transport.plugin, PluginRef::Bundled("http".into()));
    assert!(
        transport
            .grants
            .peers
            .iter()
            .all(|peer| ["localhost", "127.0.0.0/8", "[::1]"].iter().any(|host| peer.contains(host)))
    );
    assert_eq!(config.routes.0.len(), 1);
    assert!(!transport.grants.internal && config.warnings.is_empty());
    let none = load(&Inputs { bundled: vec!["http"], ..Inputs::default() }).unwrap_err();
    assert_eq!(none.code().as_str(), "CONFIG.NO_DATA_FOLDER");
}

#[test]
fn a_file_with_transports_gets_no_other() {
    let config =
        case("[transport.a]\nplugin = \"noop\"\n[[route]]\nmatch = \"bus:**\"\ntransport = \"a\"\n").load().unwrap();
    assert_eq!(config.transports.len(), 1);
    assert_eq!(config.routes.0.len(), 1);
}

#[test]
fn flags_beat_the_environment_and_the_environment_beats_the_file() {
    let file = "[outbox]\nbatch = 10\nmax_attempts = 3\nkeep_done = \"1h\"\n[server]\nlisten = \"127.0.0.1:1\"\n";
    let case = case(file)
        .env("WAYBILL_OUTBOX_BATCH", "20")
        .env("WAYBILL_SERVER_LISTEN", "127.0.0.1:2")
        .env("WAYBILL_OUTBOX_KEEP_DONE_MS", "60000")
        .flag("server.listen", "--listen", "127.0.0.1:3");
    let config = case.load().unwrap();
    assert_eq!((config.outbox.batch, config.outbox.backoff.policy.max_attempts), (20, 3));
    assert_eq!(config.outbox.keep_done, Duration::from_secs(60));
    assert_eq!(config.server.listen.port(), 3);
    let origin = |path: &str| config.shown.iter().find(|shown| shown.path == path).unwrap().origin.clone();
    assert_eq!(origin("server.listen"), Origin::Flag("--listen".into()));
    assert_eq!(origin("outbox.batch"), Origin::Env("WAYBILL_OUTBOX_BATCH".into()));
    assert_eq!(origin("outbox.max_attempts").to_string(), format!("{}:3:16", case.path().display()));
    assert_eq!(origin("outbox.owner_ttl"), Origin::Default);
}

#[test]
fn a_misspelt_variable_of_ours_is_an_error_and_others_are_left_alone() {
    let error = case("").env("WAYBILL_OUTBOX_BACH", "5").error();
    assert!(error.starts_with("CONFIG.UNKNOWN_KEY") && error.contains("WAYBILL_OUTBOX_BATCH"), "{error}");
    let error = case("").env("WAYBILL_OUTBOX_BATCH", "many").error();
    assert!(error.starts_with("CONFIG.WRONG_TYPE") && error.contains("environment WAYBILL_OUTBOX_BATCH"), "{error}");
    // As Kubernetes sets them for a service named waybill, and as the program itself takes them.
    let case = case("")
        .env("WAYBILL_PORT", "tcp://10.0.0.1:7070")
        .env("WAYBILL_SERVICE_HOST", "10.0.0.1")
        .env("WAYBILL_TOKEN", "x");
    assert!(case.load().is_ok());
}

#[test]
fn names_of_the_sources_mean_what_they_meant_there() {
    let of = |toml: &str| case(toml).load().unwrap().outbox;
    assert_eq!(of("[tx.outbox]\nlease_ms = 15000\n").owner_ttl, Duration::from_secs(15));
    assert_eq!(of("[outbox]\nlease_seconds = 60\n").owner_ttl, Duration::from_secs(60));
    // Source document 2: after the first failure base * 2^1.
    let second = of("[outbox.backoff]\nbase_seconds = 60\nmax_seconds = 3600\njitter_factor = 0.0\n").backoff.policy;
    let delays: Vec<u64> = (1..=6).map(|failures| second.delay(failures, 0.5).as_secs()).collect();
    assert_eq!(delays, [120, 240, 480, 960, 1920, 3600]);
    // Source document 4: now + min(OUTBOX_MAX_BACKOFF_MS, OUTBOX_BACKOFF_BASE_MS * 2^attempts).
    let case = case("[outbox.backoff]\njitter = 0\n")
        .env("OUTBOX_POLL_INTERVAL_MS", "1000")
        .env("OUTBOX_BATCH_SIZE", "7")
        .env("OUTBOX_BACKOFF_BASE_MS", "250")
        .env("OUTBOX_MAX_BACKOFF_MS", "3000")
        .env("OUTBOX_MAX_ATTEMPTS", "4");
    let fourth = case.load().unwrap().outbox;
    assert_eq!(
        (fourth.batch, fourth.poll_interval, fourth.backoff.policy.max_attempts),
        (7, Duration::from_secs(1), 4)
    );
    let delays: Vec<u128> = (1..=4).map(|failures| fourth.backoff.policy.delay(failures, 0.5).as_millis()).collect();
    assert_eq!(delays, [500, 1000, 2000, 3000]);
    let both = case.env("WAYBILL_OUTBOX_BATCH", "8").error();
    assert!(both.starts_with("CONFIG.DUPLICATE") && both.contains("OUTBOX_BATCH_SIZE"), "{both}");
}

#[test]
fn tokens_are_kept_as_hashes() {
    let case = case(
        "[server]\nlisten = \"0.0.0.0:7070\"\nbehind_tls_proxy = true\n[[auth.token]]\nname = \"ops\"\ntoken_file = \"ops.token\"\nroles = [\"admin\"]\n\
         [[auth.token]]\nname = \"shop\"\nsha256 = \"D0C04F4B1951E4AEAAEC8223ED2039E542F3AAE805A6FA7F6D794E5AFFF5D272\"\ntenants = [\"acme\"]\n",
    )
    .file("ops.token", b"0123456789abcdef-token\n");
    let config = case.load().unwrap();
    let [ops, shop] = config.auth.tokens.as_slice() else { panic!("two tokens") };
    assert_eq!((ops.roles.as_slice(), &ops.tenants), ([Role::Admin].as_slice(), &None));
    assert_eq!((shop.roles.as_slice(), &shop.tenants), ([Role::Sender].as_slice(), &Some(vec!["acme".to_owned()])));
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
}

#[test]
fn a_token_that_could_be_guessed_is_refused() {
    let toml = "[[auth.token]]\nname = \"ops\"\ntoken_file = \"ops.token\"\n";
    for (weak, words) in [
        ("short", "5 bytes are at most 30 bits"),
        ("0123456789abcdef", "16 bytes are at most 64 bits"),
        ("0123456789abcdef0123456789abcde", "31 bytes are at most 124 bits"),
        ("01234567890123456789012345678901234567", "at most 126 bits"),
        ("correct-horse-battery", "21 bytes are at most 126 bits"),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "only 1 different"),
        ("", "0 bytes"),
    ] {
        let error = case(toml).file("ops.token", weak.as_bytes()).error();
        assert!(error.contains("CONFIG.SECRET") && error.contains(words), "{weak}: {error}");
        assert!(error.contains("openssl rand -hex 32") && (weak.len() < 6 || !error.contains(weak)), "{error}");
    }
    for strong in ["0123456789abcdef0123456789abcdef", "MDEyMzQ1Njc4OWFiY2RlZg", "k3!x)9Qz~7w@Lp#2Vr&5"] {
        assert_eq!(case(toml).file("ops.token", format!("{strong}\n").as_bytes()).load().unwrap().auth.tokens.len(), 1);
    }
}

#[test]
fn listening_beyond_this_machine_needs_tls_or_a_proxy_that_has_it() {
    let token =
        "[[auth.token]]\nname = \"a\"\nsha256 = \"d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272\"\n";
    for open in ["0.0.0.0:7070", "[::]:7070", "10.0.0.7:7070"] {
        let error = refused(&format!("[server]\nlisten = \"{open}\"\n{token}"));
        assert!(error.starts_with("CONFIG.CLEAR_TEXT: ") && error.contains("at  waybill.toml:2:10"), "{error}");
        for way in ["[server.tls] cert and key", "server.behind_tls_proxy = true", "127.0.0.1"] {
            assert!(error.contains(way), "{error}");
        }
        for way in ["behind_tls_proxy = true", "tls = { cert = \"c.pem\", key = \"k.pem\" }"] {
            let toml = format!("[server]\nlisten = \"{open}\"\n{way}\n{token}");
            assert!(case(&toml).load().is_ok(), "{toml}");
        }
    }
    for loopback in ["", "behind_tls_proxy = true\n"] {
        assert!(case(&format!("[server]\nlisten = \"[::1]:7070\"\n{loopback}{token}")).load().is_ok());
    }
    let tls = case("[server]\ntls = { cert = \"c.pem\", key = \"/etc/k.pem\" }\n");
    let read = tls.load().unwrap().server.tls.unwrap();
    assert_eq!((read.cert, read.key), (tls.dir.path().join("c.pem"), PathBuf::from("/etc/k.pem")));
}

#[test]
fn one_peer_has_a_quarter_of_the_connections_unless_it_is_a_proxy() {
    let token =
        "[[auth.token]]\nname = \"a\"\nsha256 = \"d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272\"\n";
    let peer =
        |settings: &str| case(&format!("[server]\n{settings}{token}")).load().unwrap().server.max_connections_per_peer;
    assert_eq!((peer(""), peer("max_connections = 100\n"), peer("max_connections = 1\n")), (1024, 25, 1));
    assert_eq!(peer("behind_tls_proxy = true\n"), 4096);
    assert_eq!(peer("behind_tls_proxy = true\nmax_connections_per_peer = 7\n"), 7);
}

#[cfg(unix)]
#[test]
fn files_with_secrets_that_others_may_read_are_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let toml = "[server]\ntls = { cert = \"c.pem\", key = \"k.pem\" }\n[[auth.token]]\nname = \"a\"\ntoken_file = \"a.token\"\n\
                [[auth.token]]\nname = \"b\"\nsha256 = \"d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272\"\n\
                [transport.t]\nplugin = \"noop\"\nsecrets = { s = \"file:s.secret\" }\n[[route]]\nmatch = \"bus:**\"\ntransport = \"t\"\n";
    let case = case(toml)
        .file("c.pem", b"public")
        .file("k.pem", b"key")
        .file("a.token", b"0123456789abcdef0123456789abcdef")
        .file("s.secret", b"secret");
    let files = ["k.pem", "a.token", "s.secret", "waybill.toml"];
    let chmod = |name: &str, mode| {
        std::fs::set_permissions(case.dir.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    chmod("c.pem", 0o644);
    files.iter().for_each(|name| chmod(name, 0o600));
    assert_eq!(case.load().unwrap().warnings, Vec::<String>::new());
    for (name, setting) in
        [("k.pem", "server.tls.key"), ("a.token", "token_file"), ("s.secret", "secrets.s"), ("waybill.toml", "sha256")]
    {
        for mode in [0o640, 0o604] {
            chmod(name, mode);
            let [warning] = &case.load().unwrap().warnings[..] else { panic!("{name}: one warning") };
            for word in [setting, name, &format!("{mode:04o}"), "chmod 600"] {
                assert!(warning.contains(word), "{warning}");
            }
        }
        chmod(name, 0o600);
    }
    chmod("waybill.toml", 0o602);
    assert!(case.load().unwrap().warnings.iter().any(|warning| warning.contains("choose what the host runs")));
}

#[test]
fn the_rest_of_the_settings_arrive_where_they_belong() {
    let config = case(
        "[dead]\non_dead = \"hold_key\"\nalert_at = 5\n[limits]\nwindow_bytes = \"64MiB\"\nkey_messages = 9\n\
         [[tenant]]\nname = \"acme\"\nweight = 3\nrate = 200\n[audit]\nmessages = false\nkeep = \"30d\"\n\
         [transport.a]\nplugin = \"noop\"\nrate = 20\nburst = 5\nmemory = \"32MiB\"\nsend_timeout = \"5s\"\nmax_batch = 7\n",
    )
    .load()
    .unwrap();
    assert_eq!((config.dead.on_dead, config.dead.alert_at), (OnDead::HoldKey, 5));
    assert_eq!((config.limits.scheduler.window_bytes, config.limits.scheduler.key_messages), (64 << 20, 9));
    assert_eq!((config.tenants[0].name.as_str(), config.tenants[0].weight), ("acme", 3));
    let rate = |rate: Option<Rate>| rate.map(|rate| (rate.per_second.get(), rate.burst.get()));
    assert_eq!(rate(config.tenants[0].rate), Some((200, 200)), "a second's messages at once");
    assert_eq!(rate(config.transports[0].rate), Some((20, 5)));
    assert_eq!((config.audit.messages, config.audit.keep.as_secs()), (false, 30 * 24 * 3600));
    let limits = config.transports[0].grants.limits;
    assert_eq!(
        (limits.memory_bytes, limits.call_time, limits.max_batch),
        (Some(32 << 20), Some(Duration::from_secs(5)), Some(7))
    );
    assert!(config.warnings.iter().any(|warning| warning.contains("no [[route]]")), "{:?}", config.warnings);
}

#[test]
fn a_missing_file_is_named() {
    let error =
        load(&Inputs { file: Some(Path::new("/nonexistent/waybill.toml").into()), ..Inputs::default() }).unwrap_err();
    assert_eq!(error.code().as_str(), "CONFIG.FILE");
    assert!(error.to_string().contains("/nonexistent/waybill.toml"), "{error}");
}

#[test]
fn a_route_may_lead_to_workers_outside_and_remember_payloads() {
    let config = case(
        "[[route]]\nmatch = \"bus:memory.**\"\ntransport = \"external\"\ndedup = \"payload\"\n\
         [[route]]\nmatch = \"bus:**\"\ntransport = \"external\"\ndedup = \"payload\"\ndedup_window = \"90s\"\n\
         [[route]]\nmatch = \"custom:**\"\ntransport = \"external\"\n",
    )
    .load()
    .unwrap();
    assert!(config.transports.is_empty());
    let windows: Vec<_> = config.routes.0.iter().map(|route| route.dedup).collect();
    assert_eq!(windows, [Some(Duration::from_secs(24 * 3_600)), Some(Duration::from_secs(90)), None]);
    for (toml, code, words) in [
        ("[transport.external]\nplugin = \"noop\"\n", "CONFIG.DUPLICATE", "built in"),
        ("[[route]]\nmatch = \"bus:**\"\ntransport = \"externl\"\n", "CONFIG.UNKNOWN_TRANSPORT", "external"),
        (
            "[[route]]\nmatch = \"bus:**\"\ntransport = \"external\"\ndedup_window = \"1h\"\n",
            "CONFIG.BAD_VALUE",
            "no effect",
        ),
        ("[[route]]\nmatch = \"bus:**\"\ntransport = \"external\"\ndedup = \"id\"\n", "CONFIG.BAD_VALUE", "payload"),
    ] {
        let error = refused(toml);
        assert!(error.contains(code) && error.contains(words), "{error}");
    }
}

#[test]
fn a_participant_is_read_with_its_bounds_and_grants() {
    let toml = "[store]\nurl = \"mem://\"\n[participant.shop]\nplugin = \"orders.wasm\"\ninstances = 3\ncall_time = \"5s\"\n\
                config = { url = \"x\" }\nsecrets = { key = \"env:KEY\" }\nallow = { http = [\"https://a\"], internal = true, kv = \"1MiB\" }\n";
    let config = case(toml).file("orders.wasm", b"x").env("KEY", "v").load().unwrap();
    let [shop] = config.participants.as_slice() else { panic!("{:?}", config.participants) };
    let grants = &shop.grants;
    let five_seconds = Some(Duration::from_secs(5));
    assert_eq!((shop.name.as_str(), shop.instances, grants.limits.call_time), ("shop", 3, five_seconds));
    assert_eq!(grants.peers, ["https://a"]);
    assert_eq!((grants.kv.map(|kv| kv.total_bytes_max), grants.internal), (Some(1 << 20), true));
    assert_eq!(grants.secrets, BTreeMap::from([("key".to_owned(), "env:KEY".to_owned())]));
    assert_eq!(shop.config, serde_json::json!({ "url": "x" }));
    for (section, says) in [
        ("[participant.shop]\n", "plugin"),
        ("[participant.Shop]\nplugin = \"noop\"\n", "the name of a participant"),
        ("[participant.shop]\nplugin = \"noop\"\ninstances = 0\n", "instances"),
        ("[participant.shop]\nplugin = \"noop\"\ncall_tim = \"1s\"\n", "did you mean \"call_time\""),
        ("[participant.shop]\nplugin = \"gone.wasm\"\n", "CONFIG.PLUGIN_MISSING"),
    ] {
        let error = refused(&format!("[store]\nurl = \"mem://\"\n{section}"));
        assert!(error.contains(says), "{section}: {error}");
    }
}

#[test]
fn how_the_plugins_of_participants_and_of_the_retry_policy_follow_one_another_is_read() {
    let digest = "a".repeat(64);
    let toml = format!(
        "[store]\nurl = \"mem://\"\n[participant.shop]\nplugin = \"orders.wasm\"\ncall_time = \"2m\"\nwatch = true\n\
         sha256 = \"{digest}\"\nreload = \"stop-start\"\nprobation = \"5s\"\ndrain_timeout = \"10s\"\n\
         [outbox.backoff]\nplugin = \"orders.wasm\"\nwatch = true\nprobation = \"0s\"\n"
    );
    let config = case(&toml).file("orders.wasm", b"x").load().unwrap();
    let [shop] = config.participants.as_slice() else { panic!("{:?}", config.participants) };
    let policy = &shop.policy;
    assert!(shop.watch && shop.sha256 == Some(format!("sha256:{digest}")));
    assert_eq!((policy.reload.as_str(), policy.probation), ("stop-start", Duration::from_secs(5)));
    assert_eq!(policy.drain_timeout, Duration::from_secs(120), "a call under way ends by itself");
    let policy = config.outbox.backoff.plugin.unwrap();
    assert_eq!((policy.name.as_str(), policy.watch, policy.policy.probation), ("outbox.backoff", true, Duration::ZERO));
}
