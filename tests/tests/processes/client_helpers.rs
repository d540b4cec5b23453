//! The clients by hand of `examples/clients` against the real binary: what is asked for twice is done once, also where the first answer
//! was lost.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch, binary};

use crate::generated_clients::{node_and_packages, run};

/// Far longer than anything here takes: a broken client must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);
const CONFIG: &str = "[[route]]\nmatch = \"bus:parcels.**\"\ntransport = \"external\"\n";

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/clients").join(path)
}

async fn host(dir: &Path) -> (Host, Api) {
    let config = format!("[store]\nurl = \"surrealkv://{}\"\n{CONFIG}", dir.join("data").display());
    Host::ready(&Launch::prepare(binary().unwrap(), dir, &config).unwrap()).await.unwrap()
}

/// Stands before a host, and loses the first answer to each POST but claims, whose messages would wait for the end of their lease: the address.
async fn losing_answers(api: &Api) -> String {
    let host = api.base().strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let host = TcpStream::connect(&host).await.unwrap();
            let asked = Arc::clone(&asked);
            tokio::spawn(async move { one_request(client, host, &asked).await });
        }
    });
    url
}

/// Hands one request over, and its answer back if its like was asked before.
async fn one_request(mut client: TcpStream, mut host: TcpStream, asked: &Mutex<BTreeSet<String>>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }
    let text = String::from_utf8(head).ok()?;
    // The connection ends with the answer, so that each request has one.
    host.write_all(text.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes()).await.ok()?;
    let line = text.lines().next()?.to_owned();
    let is_lost = line.starts_with("POST ") && !line.contains("/claim") && asked.lock().unwrap().insert(line);
    if is_lost {
        let (mut more, _) = client.split();
        let (mut answer, mut to_host) = host.split();
        // That it begins to answer says that it is done.
        tokio::select! {
            _ = answer.read_u8() => {}
            _ = copy(&mut more, &mut to_host) => {}
        }
    } else {
        copy_bidirectional(&mut client, &mut host).await.ok()?;
    }
    Some(())
}

/// Runs the example of a language by way of what loses answers, and looks at what there is then.
async fn does_each_thing_once(dir: &Path, example: impl AsyncFnOnce(&str) -> String) {
    let (host, api) = host(dir).await;
    let words = example(&losing_answers(&api).await).await;
    let lines: Vec<Value> = words.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let payload = json!({ "order": "order-17" });
    for topic in ["bus:parcels.note", "bus:parcels.book"] {
        assert!(lines.contains(&json!({ "handled": topic, "payload": payload })), "{topic}: {words}");
    }
    assert_eq!(lines.last().unwrap(), &json!({ "state": "completed", "output": { "parcel": "p-1" } }));
    assert_eq!(api.messages("done").await.unwrap().len(), 2, "one note, and one message of the saga's step");
    let note = api.get("/v1/messages/order-17-note", &[]).await.unwrap().body;
    assert_eq!((&note["state"], &note["receipt"]["broker_ref"]), (&json!("done"), &json!("p-1")));
    let saga = api.get("/v1/sagas/order-17", &[]).await.unwrap().body;
    assert_eq!(saga["saga"]["steps"][0]["attempts"], 1);
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_does_each_thing_once_though_answers_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    let python = async |url: &str| {
        let mut command = Command::new("python3");
        // Nothing is written beside the sources.
        run(command.arg("-B").arg(example("python/example.py")).args(["--url", url])).await
    };
    does_each_thing_once(dir.path(), python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_client_compiles_strictly_and_does_each_thing_once_though_answers_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (node, packages) = node_and_packages("typescript");
    for file in ["waybill.ts", "worker.ts", "example.ts"] {
        std::fs::copy(example("typescript/src").join(file), dir.path().join(file)).unwrap();
    }
    std::fs::write(dir.path().join("package.json"), r#"{"type": "module"}"#).unwrap();
    std::os::unix::fs::symlink(&packages, dir.path().join("node_modules")).unwrap();
    // A Node.js before 22.18 doesn't run TypeScript as it is.
    let mut compile = Command::new(&node);
    compile.arg(packages.join("typescript/bin/tsc")).current_dir(dir.path());
    compile.args([
        "--strict",
        "--noUncheckedIndexedAccess",
        "--erasableSyntaxOnly",
        "--rewriteRelativeImportExtensions",
    ]);
    run(compile.args(["--target", "es2022", "--module", "nodenext", "--types", "node", "example.ts"])).await;
    let typescript = async |url: &str| {
        let mut command = Command::new(&node);
        run(command.arg(dir.path().join("example.js")).arg(url)).await
    };
    does_each_thing_once(dir.path(), typescript).await;
}
