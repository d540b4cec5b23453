//! `waybill serve` as a process: start, drain, signals, and what keeps it from starting.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use waybill_cli::exit::Exit;
use waybill_core::ids::Seq;
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{InboxDead, InboxWrite};
use waybill_core::time::UnixMillis;
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::conformance::inbox_samples::{Writer, dead, inbound, row};

use crate::support::{Done, waybill};

/// A host that hasn't said by then what is expected never will.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A running `waybill serve`.
pub struct Host {
    child: Child,
    lines: Receiver<String>,
    told: Vec<String>,
}

fn follow(pipe: impl Read + Send + 'static, tell: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
}

impl Host {
    pub fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_waybill"));
        program.arg("serve").args(arguments);
        Self::run(dir, program)
    }

    /// The same by another program, which becomes the host.
    pub fn run(dir: &Path, mut program: Command) -> Self {
        let mut child = program
            .current_dir(dir)
            .env_clear()
            .env("HOME", dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, lines) = channel();
        let (out, err): (ChildStdout, ChildStderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        follow(out, tell.clone());
        follow(err, tell);
        Self { child, lines, told: Vec::new() }
    }

    /// Waits for a line that holds these words, unless there was one already: its two outputs come in any order.
    pub fn says(&mut self, words: &str) -> String {
        if let Some(line) = self.told.iter().find(|line| line.contains(words)) {
            return line.clone();
        }
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.told.push(line.clone());
                    if line.contains(words) {
                        return line;
                    }
                }
                Err(_) => panic!("it never said {words:?}:\n{}", self.told.join("\n")),
            }
        }
    }

    /// Its address, once it serves.
    pub fn url(&mut self) -> String {
        self.says("listening on ").split_once("listening on ").unwrap().1.trim().to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits for its end; answers all it said.
    pub fn ended(mut self) -> (ExitStatus, String) {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.told.push(line);
        }
        (self.child.wait().unwrap(), self.told.join("\n"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Ended already, or a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn ask(url: &str, arguments: &[&str]) -> Done {
    waybill(arguments).arg("--url").arg(url).run()
}

/// A configuration that sends everything of `bus:` nowhere and needs nothing of the machine.
pub fn noop(dir: &Path) -> String {
    let file = dir.join("waybill.toml");
    let text = "[store]\nurl = \"surrealkv://./data\"\n[server]\nlisten = \"127.0.0.1:0\"\n[plugins]\ncache = \"./cache\"\n\
                [transport.nowhere]\nplugin = \"noop\"\n[[route]]\nmatch = \"bus:**\"\ntransport = \"nowhere\"\n";
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn a_host_without_a_file_serves_and_ends_in_good_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = Host::start(dir.path(), &["--listen", "127.0.0.1:0"]);
    let url = host.url();
    host.says("INFO ready");
    let status = ask(&url, &["status"]);
    assert_eq!(status.exit, Exit::Done, "{}{}", status.out, status.err);
    assert!(dir.path().join(".local/share/waybill/store").is_dir());
    let refused = ask(&url, &["send", "--topic", "bus:a", "--payload", "1"]);
    assert_eq!(refused.exit, Exit::Usage);
    assert!(refused.err.contains("OUTBOX.NO_ROUTE"), "{}", refused.err);
    host.signal(Signal::TERM);
    let (status, told) = host.ended();
    assert!(status.success(), "{told}");
    assert!(told.contains("drained") && told.contains("ended"), "{told}");
    assert!(!told.contains(" WARN ") || told.contains("signing"), "{told}");
}

#[test]
fn what_was_committed_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let config = noop(dir.path());
    let mut host = Host::start(dir.path(), &["--config", &config]);
    let url = host.url();
    host.says("INFO ready");
    let sent = ask(&url, &["send", "--topic", "bus:orders.created", "--id", "order-1", "--payload", "{\"order\":1}"]);
    assert_eq!(sent.exit, Exit::Done, "{}", sent.err);
    let later = ask(
        &url,
        &["send", "--topic", "bus:orders.created", "--id", "order-2", "--not-before", "1h", "--payload", "2"],
    );
    assert_eq!(later.exit, Exit::Done, "{}", later.err);
    host.signal(Signal::INT);
    let (status, told) = host.ended();
    assert!(status.success(), "{told}");
    let mut host = Host::start(dir.path(), &["--config", &config]);
    let url = host.url();
    host.says("INFO ready");
    let shown = || -> serde_json::Value {
        serde_json::from_str(&ask(&url, &["outbox", "show", "order-1", "-o", "json"]).out).unwrap()
    };
    let began = std::time::Instant::now();
    let mut first = shown();
    // It goes on its way now if it didn't before the end.
    while first["state"] != "done" && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
        first = shown();
    }
    assert_eq!((first["state"].as_str(), &first["payload"]["order"]), (Some("done"), &serde_json::json!(1)));
    let second = ask(&url, &["outbox", "show", "order-2", "-o", "json"]);
    let second: serde_json::Value = serde_json::from_str(&second.out).unwrap();
    assert_eq!((second["state"].as_str(), second["waiting"]["on"].as_str()), (Some("pending"), Some("schedule")));
    let again = ask(&url, &["send", "--topic", "bus:orders.created", "--id", "order-1", "--payload", "{\"order\":1}"]);
    assert!(again.err.contains("nothing new: 1 message was there before"), "{}", again.err);
}

#[test]
fn what_a_source_left_is_shown_and_purged_when_no_source_is_configured_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let config = noop(dir.path());
    let left = async {
        let url = format!("surrealkv://{}", dir.path().join("data").display());
        let store = SurrealStore::open(StoreConfig::new(url)).await.unwrap();
        // What dies after a purge began isn't taken: this one died before.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let now = u64::try_from(now).unwrap();
        let came = InboundMessage { received_at: UnixMillis(now - 120_000), occurred_at: None, ..inbound("m-2") };
        let fill = |commit: &mut waybill_core::inbox::records::InboxCommit| {
            commit.record.last = Seq(2);
            commit.writes = vec![
                InboxWrite::PutRow(Arc::new(row(1, inbound("m-1")))),
                InboxWrite::PutDead(Arc::new(InboxDead {
                    died_at: UnixMillis(now - 60_000),
                    ..dead(2, came, "HTTP.422")
                })),
            ];
        };
        Writer::new().commit(&store, fill).await;
        store.close().await.unwrap();
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(left);
    let mut host = Host::start(dir.path(), &["--config", &config]);
    let url = host.url();
    host.says("INFO ready");
    host.says("writing the shard's inbox");
    let rows = ask(&url, &["inbox", "list", "-o", "ids"]);
    assert_eq!((rows.exit, rows.out.as_str()), (Exit::Done, "inbox-0-1\n"), "{}", rows.err);
    let letters = ask(&url, &["dead", "list", "--filter", "kind=inbox", "-o", "json"]);
    assert!(letters.out.contains("m-2") && letters.out.contains("HTTP.422"), "{}{}", letters.out, letters.err);
    let counted: serde_json::Value = serde_json::from_str(&ask(&url, &["inbox", "stats", "-o", "json"]).out).unwrap();
    let ship = &counted["consumers"][0];
    assert_eq!((&ship["consumer"], &ship["configured"], &ship["stored"]), (&"ship".into(), &false.into(), &1.into()));
    let nobody = ask(&url, &["dead", "replay", "inbox-0-2", "--tenant", "acme"]);
    assert!(nobody.exit != Exit::Done && nobody.err.contains("isn't configured"), "{}", nobody.err);
    let purged = ask(&url, &["dead", "purge", "--filter", "kind=inbox", "--yes"]);
    assert_eq!(purged.exit, Exit::Done, "{}", purged.err);
    assert_eq!(ask(&url, &["dead", "list", "--filter", "kind=inbox", "-o", "ids"]).out, "");
}

#[test]
fn a_held_data_folder_names_its_holder_and_is_exit_4() {
    let dir = tempfile::tempdir().unwrap();
    let config = noop(dir.path());
    let mut first = Host::start(dir.path(), &["--config", &config]);
    first.url();
    let (status, told) = Host::start(dir.path(), &["--config", &config]).ended();
    assert_eq!(status.code(), Some(Exit::Conflict as i32), "{told}");
    assert!(told.contains("STORAGE.LOCKED") && told.contains(&format!("process {}", first.child.id())), "{told}");
    let doctor = waybill(&["doctor", "--config", &config]).run();
    assert!(doctor.out.contains(&format!("process {}", first.child.id())), "{}", doctor.out);
}

#[test]
fn a_taken_port_is_told_before_the_store_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = noop(dir.path());
    let listen = taken.local_addr().unwrap().to_string();
    let (status, told) = Host::start(dir.path(), &["--config", &config, "--listen", &listen]).ended();
    assert_eq!(status.code(), Some(Exit::Failed as i32), "{told}");
    assert!(told.contains("CONFIG.BIND") && told.contains(&listen), "{told}");
    assert!(!dir.path().join("data").exists());
}

#[test]
fn a_wrong_configuration_or_plugin_keeps_it_from_starting_with_exit_2() {
    let dir = tempfile::tempdir().unwrap();
    let config = noop(dir.path());
    for (text, code) in [
        ("[outbox]\nbach = 1\n", "CONFIG.UNKNOWN_KEY"),
        ("[transport.a]\nplugin = \"backoff-fibonacci\"\n[plugins]\ncache = \"./cache\"\n", "PLUGIN.OTHER_WORLD"),
        ("[transport.a]\nplugin = \"noop\"\nconfig = { x = 1 }\n[plugins]\ncache = \"./cache\"\n", "PLUGIN.CONFIG"),
        (
            "[transport.a]\nplugin = \"noop\"\nprovision = true\n[plugins]\ncache = \"./cache\"\n",
            "PLUGIN.NO_PROVISIONING",
        ),
        ("[server]\nlisten = \"0.0.0.0:0\"\n[auth]\nrequired = false\n", "CONFIG.LISTEN"),
    ] {
        std::fs::write(&config, format!("{text}[store]\nurl = \"surrealkv://./data\"\n")).unwrap();
        let arguments: &[&str] = if code == "CONFIG.LISTEN" {
            &["--config", &config]
        } else {
            &["--config", &config, "--listen", "127.0.0.1:0"]
        };
        let (status, told) = Host::start(dir.path(), arguments).ended();
        assert_eq!(status.code(), Some(Exit::Usage as i32), "{told}");
        assert!(told.contains(code), "{told}");
        assert!(!dir.path().join("data").exists(), "{code}: the store was touched");
    }
}

#[test]
fn a_data_folder_that_cannot_be_used_is_told_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for data in [file.to_str().unwrap(), "/proc/waybill"] {
        let (status, told) = Host::start(dir.path(), &["--data", data, "--listen", "127.0.0.1:0"]).ended();
        assert_eq!(status.code(), Some(Exit::Failed as i32), "{told}");
        assert!(told.contains("STORAGE.DIRECTORY") && told.contains("choose another folder with --data"), "{told}");
        assert!(!told.contains("PLUGIN.CACHE"), "{told}");
    }
}

#[test]
fn a_hangup_is_answered_in_the_log_and_a_second_signal_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // A receiver that takes connections and never answers keeps the drain busy.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut host = Host::start(dir.path(), &["--listen", "127.0.0.1:0", "--log-format", "json"]);
    let url = host.url();
    host.signal(Signal::HUP);
    host.says("SIGHUP");
    let topic = format!("http://{}/hook", silent.local_addr().unwrap());
    let sent = ask(&url, &["send", "--topic", &topic, "--id", "order-1", "--payload", "1"]);
    assert_eq!(sent.exit, Exit::Done, "{}", sent.err);
    let _receiving = silent.accept().unwrap();
    host.signal(Signal::TERM);
    let draining: serde_json::Value = serde_json::from_str(&host.says("draining")).unwrap();
    assert_eq!(draining["level"], "INFO");
    let status = ask(&url, &["status"]);
    assert_eq!(status.exit, Exit::Failed, "not ready while it drains: {}", status.out);
    assert!(status.out.contains("drain"), "{}", status.out);
    let late = ask(&url, &["send", "--topic", &topic, "--payload", "2"]);
    assert_eq!(late.exit, Exit::Unreachable, "nothing new is taken while it drains: {}", late.err);
    host.signal(Signal::TERM);
    let (status, told) = host.ended();
    assert_eq!(status.code(), Some(Exit::Failed as i32), "{told}");
    let mut host = Host::start(dir.path(), &["--listen", "127.0.0.1:0"]);
    let url = host.url();
    host.says("INFO ready");
    let shown = ask(&url, &["outbox", "show", "order-1"]);
    assert_eq!(shown.exit, Exit::Done, "nothing is lost: {}", shown.err);
}

/// Plugins from files are compiled by this program in a process of its own, which does that and nothing else.
#[test]
fn a_plugin_from_a_file_is_compiled_by_a_child_of_this_program() {
    let dir = tempfile::tempdir().unwrap();
    let component = waybill_bundled::find("noop").unwrap().component;
    std::fs::write(dir.path().join("mine.wasm"), component).unwrap();
    let text = "[store]\nurl = \"mem://\"\n[plugins]\ncache = \"./cache\"\n[transport.a]\nplugin = \"./mine.wasm\"\n";
    std::fs::write(dir.path().join("waybill.toml"), text).unwrap();
    let waybill = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waybill"));
        command.args(arguments).current_dir(dir.path()).env_clear().env("HOME", dir.path());
        command
    };
    let checked = waybill(&["config", "check"]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let kept = std::fs::read_dir(dir.path().join("cache")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(kept.filter(|path| path.extension().is_some_and(|kind| kind == "cwasm")).count(), 1);

    let mut child = waybill(&["compile-component", "services", "4294967296", "60"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), component).unwrap();
    let answer = child.wait_with_output().unwrap();
    assert!(answer.status.success() && answer.stdout.starts_with(b"waybill1"), "{:?}", answer.status);
    let wrong = waybill(&["compile-component", "--help"]).output().unwrap();
    assert!(!wrong.status.success() && wrong.stdout.is_empty());
}
