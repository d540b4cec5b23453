//! `waybill plugin dev` beside a running host: every save becomes what serves, and what doesn't build or open never does.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};
use waybill_testkit::process::{Host, Launch, binary};

use crate::support::{kept, project_at, waybill, well};

/// Longest a build and a reload take on a busy machine.
const AMPLE: Duration = Duration::from_secs(900);

const CONFIG: &str = r#"
[store]
url = "mem://"

[plugins]
folder = "plugins"

[transport.hook]
plugin = "my-transport"
config = { url = "http://127.0.0.1:9/in" }
allow = { http = ["http://127.0.0.1:9"] }

[[route]]
match = "bus:**"
transport = "hook"
"#;

/// The running command; killed when dropped.
struct Dev {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Dev {
    fn start(dir: &Path, transport: &str, url: &str) -> Self {
        let mut child = waybill(&["plugin", "dev", "--transport", transport, "--url", url])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines, said: Vec::new() }
    }

    /// Waits for a line that holds a text.
    fn until(&mut self, text: &str) -> String {
        loop {
            match self.lines.recv_timeout(AMPLE) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("it never said {text:?}:\n{}", self.said.join("\n")),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended:\n{}", self.said.join("\n")),
            }
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The recipe of a project's README: what stands there as the host's configuration.
fn of_readme(dir: &Path) -> String {
    let readme = std::fs::read_to_string(dir.join("README.md")).unwrap();
    let (_, recipe) = readme.split_once("```toml\n").expect("it has a configuration");
    recipe.split_once("```").unwrap().0.to_owned()
}

/// Digest of the component that serves.
async fn live(api: &waybill_testkit::api::Api) -> String {
    let reply = api.get("/v1/plugins", &[]).await.unwrap();
    let plugins: &Value = &reply.body;
    let hook = plugins["items"].as_array().unwrap().iter().find(|item| item["transport"] == "hook");
    hook.unwrap_or_else(|| panic!("{plugins:#}"))["live"]["digest"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_save_becomes_what_serves() {
    let _ = std::fs::remove_dir_all(kept("js-dev"));
    let dir = project_at("js-dev", "transport", "js", &[]);
    well(waybill(&["plugin", "build"]).current_dir(&dir));

    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("plugins")).unwrap();
    std::fs::copy(dir.join("my-transport.wasm"), home.path().join("plugins/my-transport.wasm")).unwrap();
    let launch = Launch::prepare(binary().unwrap(), home.path(), CONFIG).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();

    let mut dev = Dev::start(&dir, "hook", api.base());
    dev.until("hook serves it");
    let first = live(&api).await;

    let source = dir.join("src/outcome.js");
    let good = std::fs::read_to_string(&source).unwrap();
    dev.until("waiting for changes");
    std::fs::write(&source, good.replace("the receiver answered", "it said")).unwrap();
    dev.until("hook serves it");
    let second = live(&api).await;
    assert_ne!(first, second, "the save serves");

    // What doesn't build, and what builds and doesn't do its work, never serves.
    for broken in ["this is no JavaScript".to_owned(), good.replace("tag: \"ack\"", "tag: \"retryable\"")] {
        dev.until("waiting for changes");
        std::fs::write(&source, broken).unwrap();
        dev.until("error: ");
        assert_eq!(live(&api).await, second);
    }
    dev.until("waiting for changes");
    std::fs::write(&source, &good).unwrap();
    dev.until("hook serves it");
    assert_ne!(live(&api).await, second, "what was mended serves");
    drop(dev);
    host.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipe_of_the_readme_serves_each_save_and_tells_of_a_rollback() {
    let _ = std::fs::remove_dir_all(kept("js-recipe"));
    let dir = project_at("js-recipe", "transport", "js", &[]);
    well(waybill(&["plugin", "build"]).current_dir(&dir));
    let home = tempfile::tempdir().unwrap();
    let config = format!("{}\n[store]\nurl = \"mem://\"\n", of_readme(&dir));
    assert!(config.contains("plugin = \"./my-transport.wasm\""), "{config}");
    // Where the README's `./my-transport.wasm` leads: to the file that is built.
    std::os::unix::fs::symlink(dir.join("my-transport.wasm"), home.path().join("my-transport.wasm")).unwrap();
    let launch = Launch::prepare(binary().unwrap(), home.path(), &config).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();

    let mut dev = Dev::start(&dir, "my-transport", api.base());
    dev.until("my-transport serves it");
    dev.until("waiting for changes");

    let source = dir.join("src/plugin.js");
    let good = std::fs::read_to_string(&source).unwrap();
    let sends = "async sendBatch(call, batch) {";
    let panics = format!("{sends}\n    if (batch.length) throw new TypeError(\"planned by the test\");");
    // The suite's own message passes, so that only the host meets it.
    let only_there =
        panics.replace("batch.length", "batch.some((message) => message.topic.startsWith(\"bus:orders.\"))");
    std::fs::write(&source, good.replace(sends, &only_there)).unwrap();
    dev.until("my-transport serves it");
    dev.until("is on probation until");
    for number in 0..20 {
        let body = json!({ "topic": "bus:orders.created", "key": format!("k-{number}"), "payload": number });
        let sent = api.post("/v1/messages", &body).await.unwrap();
        assert!((200..300).contains(&sent.status), "{}", sent.body);
    }
    let told = dev.until("was rolled back");
    assert!(told.contains("PLUGIN.PROBATION_FAILED") && told.contains("planned by the test"), "{told}");
    // What the plugin said is shown beside it.
    assert!(
        dev.said.iter().any(|line| line.contains("an instance was lost") && line.contains("planned by the test")),
        "{:#?}",
        dev.said
    );
    let list = well(&mut waybill(&["plugin", "list", "--url", api.base()]));
    let told = String::from_utf8_lossy(&list.stderr).into_owned();
    assert!(told.contains("was rolled back at") && told.contains("planned by the test"), "{told}");
    drop(dev);
    host.kill().await.unwrap();
}
