//! Clients that others' tools make of `/openapi.json`, with all that these tools need pinned in `tests/clients`: generated, compiled, and used
//! against a running host. A linter has nothing to say of the document.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch, binary};
use waybill_testkit::toolchains;

use crate::monitoring::receiver;

/// Far longer than anything here takes: a broken tool must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);

fn client(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(path)
}

/// Where tools are kept between runs.
fn tools(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("toolchains").join(name)
}

/// Node.js, and the packages that a folder of clients pins.
pub fn node_and_packages(name: &str) -> (PathBuf, PathBuf) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let found = toolchains::install(target).and_then(|all| {
        let package = client(name).join("package.json");
        let packages = all.locked_packages(&tools(&format!("openapi-{name}")), &package)?;
        Ok((all.node().join("node"), packages))
    });
    found.unwrap_or_else(|error| panic!("{error}"))
}

/// Something of everything that needs no broker.
const CONFIG: &str = r#"
[store]
url = "surrealkv://./data"
[outbox]
backoff = { base_ms = 10 }
[[route]]
match = "bus:work.**"
transport = "external"
dedup = "payload"
[[route]]
match = "http:**"
transport = "http"
[transport.http]
plugin = "http"
allow = { http = ["http://127.0.0.1:*"] }
[transport.nowhere]
plugin = "noop"
[relay.copies]
match = "task.**"
transport = "nowhere"
topic = "bus:{stream}"
[saga]
approval_key = "file:./key"
"#;

/// A host, a topic that is refused, and the document beside them.
struct Scene {
    host: Host,
    api: Api,
    topic: String,
    dir: tempfile::TempDir,
    document: PathBuf,
}

impl Scene {
    async fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key"), "0123456789abcdef0123456789abcdef").unwrap();
        let (host, api) = Host::ready(&Launch::prepare(binary().unwrap(), dir.path(), CONFIG).unwrap()).await.unwrap();
        let document = dir.path().join("openapi.json");
        std::fs::write(&document, api.get("/openapi.json", &[]).await.unwrap().body.to_string()).unwrap();
        let topic = format!("{}/refuse", receiver().await);
        Self { host, api, topic, dir, document }
    }
}

/// Runs a program to its end and gives all that it wrote.
pub async fn run(command: &mut Command) -> String {
    run_within(PATIENCE, command).await
}

/// The same with another patience.
pub async fn run_within(patience: Duration, command: &mut Command) -> String {
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let Output { status, stdout, stderr } = tokio::time::timeout(patience, running).await.expect("it ends").unwrap();
    let words = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} ended with {status}: {words}");
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_made_for_python_asks_for_everything_and_knows_each_answer() {
    let requirements = client("python/requirements.txt");
    let programs = toolchains::environment(&tools("openapi-python"), &requirements, None);
    let programs = programs.unwrap_or_else(|error| panic!("{error}"));
    let scene = Scene::open().await;
    let package = scene.dir.path().join("waybill_client");
    let mut generate = Command::new(programs.join("openapi-python-client"));
    generate.args(["generate", "--meta", "none", "--config"]).arg(client("python/config.yaml"));
    let words = run(generate.arg("--path").arg(&scene.document).arg("--output-path").arg(&package)).await;
    // What it can't send are bodies that aren't JSON. Whatever it can't model would be missing from the client.
    let is_complaint = |line: &str| ["Unable", "removal", "Could not"].iter().any(|word| line.contains(word));
    assert!(!words.lines().any(is_complaint), "{words}");
    let mut using = Command::new(programs.join("python3"));
    using.arg(client("python/use.py")).arg(scene.dir.path()).args([scene.api.base(), &scene.topic]);
    assert!(run(&mut using).await.ends_with("used\n"));
    assert!(scene.host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_made_for_typescript_compiles_strictly_and_sends_reads_and_replays() {
    let (node, packages) = node_and_packages("typescript");
    let scene = Scene::open().await;
    let folder = scene.dir.path();
    for file in ["package.json", "tsconfig.json", "use.ts"] {
        std::fs::copy(client("typescript").join(file), folder.join(file)).unwrap();
    }
    std::os::unix::fs::symlink(&packages, folder.join("node_modules")).unwrap();
    let tool = |path: &str| {
        let mut command = Command::new(&node);
        command.arg(packages.join(path)).current_dir(folder);
        command
    };
    run(tool("openapi-typescript/bin/cli.js").arg(&scene.document).args(["-o", "waybill.ts"])).await;
    run(tool("typescript/bin/tsc").args(["-p", "."])).await;
    let mut using = Command::new(&node);
    using.arg(folder.join("out/use.js")).args([scene.api.base(), &scene.topic]).current_dir(folder);
    assert!(run(&mut using).await.ends_with("used\n"));
    assert!(scene.host.terminate(PATIENCE).await.unwrap().success());
}

/// Maven generates it, too. It keeps what it fetches in its own folder, and asks nobody for what is there: all versions are pinned.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_made_for_java_compiles_and_sends_reads_and_replays() {
    let scene = Scene::open().await;
    let folder = scene.dir.path();
    let source = folder.join("src");
    std::fs::create_dir(&source).unwrap();
    std::fs::copy(client("java/pom.xml"), folder.join("pom.xml")).unwrap();
    std::fs::copy(client("java/Use.java"), source.join("Use.java")).unwrap();
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", "compile", "exec:java"]).current_dir(folder);
    // It works for seconds: that isn't worth Java's best compiler, which takes more than the work itself.
    let options = std::env::var("MAVEN_OPTS").unwrap_or_default();
    maven.env("MAVEN_OPTS", format!("{options} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"));
    let words = run(maven.arg(format!("-Dexec.args={} {}", scene.api.base(), scene.topic))).await;
    // Maven sets the colours back at its end.
    assert!(words.lines().any(|line| line == "used"), "{words}");
    assert!(scene.host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_linter_has_nothing_to_say_of_the_document() {
    let (node, packages) = node_and_packages("spectral");
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/server/openapi.json");
    let mut lint = Command::new(node);
    lint.arg(packages.join("@stoplight/spectral-cli/dist/index.js")).arg("lint").arg(document);
    lint.args(["--fail-severity", "hint", "--ruleset"]).arg(client("spectral/ruleset.yaml"));
    run(&mut lint).await;
}
