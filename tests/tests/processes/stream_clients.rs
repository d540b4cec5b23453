//! The subscribers of `examples/streams-python`, `examples/streams-grpc-python` and `examples/streams-typescript` against the real binary: what
//! each writes to its file when it is killed, when it loses its cursor, and when it was stopped for so long that it lagged.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use waybill_core::seq_json::SeqJson;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch, binary};
use waybill_testkit::toolchains;

use crate::inbound::until;

/// Far longer than anything here takes: a broken client must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);

const STREAMS: [&str; 3] = ["task.node.1", "task.node.2", "task.node.3"];
/// A flood is so many requests of so many events with so many bytes of base64: far more than host and system hold for a reader.
const FLOOD: (u64, u64, usize) = (16, 20, 80_000);

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(path)
}

/// A host with a short memory for live readers, and where a client leaves its files.
struct Scene {
    host: Host,
    api: Api,
    dir: tempfile::TempDir,
    /// The client's program and what comes before its own arguments.
    client: Vec<PathBuf>,
    appended: BTreeMap<&'static str, u64>,
}

impl Scene {
    async fn open(client: impl FnOnce(&Path) -> Vec<PathBuf>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let config = format!("[store]\nurl = \"surrealkv://{}\"\n[events]\nlive_buffer_size = 16\n", data.display());
        let launch = Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap();
        let (host, api) = Host::ready(&launch).await.unwrap();
        let client = client(dir.path());
        Self { host, api, dir, client, appended: STREAMS.map(|stream| (stream, 0)).into() }
    }

    async fn append(&mut self, stream: &'static str, events: u64, payload: usize) {
        let event = json!({"resource_type": "TASK", "resource_id": "t-1", "op": "UPDATE", "schema_version": 1,
            "content_type": "text/plain", "payload_bytes": "eHh4".repeat(payload / 4)});
        let body = json!({ "events": vec![event; usize::try_from(events).unwrap()] });
        let reply = self.api.post(&format!("/v1/streams/{stream}/events"), &body).await.unwrap();
        assert!(reply.is_ok(), "{reply:?}");
        *self.appended.get_mut(stream).unwrap() += events;
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The client; with `ends`, it ends when it has all that was appended so far.
    fn start(&self, ends: bool) -> Child {
        let (program, more) = self.client.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(more).args(["--selector", "prefix:task.node.", "--url", self.api.base()]);
        command.arg("--into").arg(self.file("events.jsonl")).arg("--cursor").arg(self.file("cursor.json"));
        if ends {
            command.args(["--until", &self.appended.values().sum::<u64>().to_string()]);
        }
        let words = File::options().create(true).append(true).open(self.file("words")).unwrap();
        command.stdin(Stdio::null()).stderr(words).kill_on_drop(true).spawn().unwrap()
    }

    async fn run(&self) {
        let ended = timeout(PATIENCE, self.start(true).wait()).await;
        let words = std::fs::read_to_string(self.file("words")).unwrap();
        assert!(ended.expect("the client has everything").unwrap().success(), "{words}");
    }

    /// What the client wrote: each event of each stream once, in order.
    fn check(&self) {
        let mut read: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for line in std::fs::read_to_string(self.file("events.jsonl")).unwrap().lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            read.entry(event["stream"].as_str().unwrap().to_owned())
                .or_default()
                .push(SeqJson::in_value(&event["seq"]).unwrap());
        }
        for (stream, events) in &self.appended {
            assert_eq!(read[*stream], (1..=*events).collect::<Vec<_>>(), "{stream}");
        }
    }

    fn lagged(&self) -> bool {
        std::fs::read_to_string(self.file("words")).unwrap().contains("EVENT.LAGGED: watch lagged; resync required")
    }

    async fn written(&self, file: &str, than: u64) {
        until("the client writes", async || std::fs::metadata(self.file(file)).is_ok_and(|file| file.len() > than))
            .await;
    }
}

/// Everything that a client does, step by step.
async fn follows(mut scene: Scene) {
    for stream in STREAMS {
        scene.append(stream, 100, 40).await;
    }
    scene.run().await;
    scene.check();

    // Without its cursor it begins anew, and drops what it has.
    std::fs::remove_file(scene.file("cursor.json")).unwrap();
    for stream in STREAMS {
        scene.append(stream, 50, 40).await;
    }
    scene.run().await;
    scene.check();

    // It is stopped while it reads what comes live, which is no sooner than it has what was there.
    let mut client = scene.start(false);
    let pid = Pid::from_raw(i32::try_from(client.id().unwrap()).unwrap()).unwrap();
    for round in 0.. {
        assert!(round < 20, "the client is passed by twenty floods, and never lagged");
        let before = std::fs::metadata(scene.file("events.jsonl")).unwrap().len();
        scene.append(STREAMS[0], 1, 40).await;
        scene.written("events.jsonl", before).await;
        let before = std::fs::metadata(scene.file("events.jsonl")).unwrap().len();
        kill_process(pid, Signal::STOP).unwrap();
        let (requests, events, payload) = FLOOD;
        for request in 0..requests {
            scene.append(STREAMS[request as usize % STREAMS.len()], events, payload).await;
        }
        kill_process(pid, Signal::CONT).unwrap();
        scene.written("events.jsonl", before + requests * events * payload as u64).await;
        if scene.lagged() {
            break;
        }
    }
    client.kill().await.unwrap();
    scene.append(STREAMS[1], 7, 40).await;
    scene.run().await;
    scene.check();

    // A cursor of another selector isn't taken.
    let kept = std::fs::read_to_string(scene.file("cursor.json")).unwrap();
    std::fs::write(scene.file("cursor.json"), kept.replace("prefix:task.node.", "prefix:")).unwrap();
    let refused = timeout(PATIENCE, scene.start(true).wait()).await.unwrap().unwrap();
    assert_eq!(refused.code(), Some(1));
    assert!(scene.host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_subscriber_has_each_event_once_whether_it_is_killed_forgets_or_lags() {
    follows(Scene::open(|_| vec!["python3".into(), example("streams-python/follow.py")]).await).await;
}

/// By Google's own client of gRPC, with the modules that its compiler makes of the proto file.
#[tokio::test(flavor = "multi_thread")]
async fn the_python_subscriber_over_grpc_has_each_event_once_whether_it_is_killed_forgets_or_lags() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("toolchains/grpc-python");
    let packages = example("streams-grpc-python/requirements.txt");
    let programs = toolchains::environment(&folder, &packages, None).unwrap_or_else(|error| panic!("{error}"));
    let python = programs.join("python3");
    let compiled = |dir: &Path| {
        let made = std::process::Command::new(&python)
            .args(["-m", "grpc_tools.protoc", "-I"])
            .arg(example("../host/api/proto"))
            .arg(format!("--python_out={}", dir.display()))
            .arg(format!("--grpc_python_out={}", dir.display()))
            .arg("waybill/events/v1/events.proto")
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        // Python looks for modules beside the program.
        let program = dir.join("follow.py");
        std::fs::copy(example("streams-grpc-python/follow.py"), &program).unwrap();
        vec![python.clone(), program]
    };
    follows(Scene::open(compiled).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_subscriber_has_each_event_once_whether_it_is_killed_forgets_or_lags() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let tools = toolchains::install(target).unwrap_or_else(|error| panic!("{error}"));
    let path = std::env::var_os("PATH").unwrap();
    let folders = tools.path.iter().cloned().chain(std::env::split_paths(&path));
    let node = folders.map(|folder| folder.join("node")).find(|node| node.is_file()).expect("there is a Node.js");
    let compiled = |dir: &Path| {
        // A Node.js before 22.18 doesn't run TypeScript as it is; jco brings a compiler along.
        std::fs::write(dir.join("package.json"), r#"{"type": "module"}"#).unwrap();
        let source = dir.join("follow.ts");
        std::fs::copy(example("streams-typescript/src/follow.ts"), &source).unwrap();
        let made = std::process::Command::new(&node)
            .arg(tools.node_modules.join("typescript/bin/tsc"))
            .args(["--ignoreConfig", "--noCheck", "--types", "", "--target", "es2022", "--module", "nodenext"])
            .args(["--erasableSyntaxOnly", "--outDir"])
            .args([dir, source.as_path()])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        vec![node.clone(), dir.join("follow.js")]
    };
    follows(Scene::open(compiled).await).await;
}
