//! Commands that need no host.

use waybill_cli::exit::Exit;

use crate::support::waybill;

#[test]
fn bundled_plugins_are_listed_and_inspected_without_a_host() {
    let list = waybill(&["plugin", "list", "--bundled", "-o", "ids"]).run();
    assert_eq!(list.exit, Exit::Done, "{}", list.err);
    let bundled = waybill_bundled::all().iter().map(|bundled| bundled.name);
    assert_eq!(list.out.lines().collect::<Vec<_>>(), bundled.collect::<Vec<_>>());
    let http = waybill(&["plugin", "inspect", "http", "-o", "json"]).run();
    let http: serde_json::Value = serde_json::from_str(&http.out).unwrap();
    assert_eq!((http["world"].as_str(), http["asks"]["secrets"][0].as_str()), (Some("transport"), Some("signing")));
    assert!(http["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(http["asks"]["required"], serde_json::json!(["http"]));
    let limits = http["limits"].as_array().unwrap();
    let limit =
        |name: &str| limits.iter().find(|limit| limit["name"] == name).unwrap_or_else(|| panic!("no limit {name}"));
    assert_eq!((limit("memory")["value"].as_u64(), limit("memory")["unit"].as_str()), (Some(64 << 20), Some("bytes")));
    assert_eq!((limit("cpu")["value"].as_u64(), limit("cpu")["setting"].as_str()), (Some(2_000), Some("cpu_per_call")));
    assert!(limits.iter().filter(|limit| limit["counted"] == true).count() >= 15);
    let table = waybill(&["plugin", "inspect", "http"]).run();
    assert!(table.out.contains("memory 64MiB") && table.out.contains("[cpu_per_call]"), "{}", table.out);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.wasm");
    std::fs::write(&file, b"\0asm\x01\0\0\0").unwrap();
    let module = waybill(&["plugin", "inspect", file.to_str().unwrap()]).run();
    assert_eq!(module.exit, Exit::Failed);
    assert!(module.err.contains("PLUGIN.CORE_MODULE"), "{}", module.err);
}

#[test]
fn a_configuration_is_checked_with_its_plugins() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("waybill.toml");
    let cache = dir.path().join("cache");
    let check = |text: &str| {
        let cache = cache.display();
        std::fs::write(&file, format!("[store]\nurl = \"mem://\"\n[plugins]\ncache = \"{cache}\"\n{text}")).unwrap();
        waybill(&["config", "check", "--config", file.to_str().unwrap()]).run()
    };
    let noop = "[[route]]\nmatch = \"bus:**\"\ntransport = \"a\"\n[transport.a]\nplugin = \"noop\"\n";
    let good = check(noop);
    assert_eq!(good.exit, Exit::Done, "{}", good.err);
    assert!(good.out.contains("1 transport, 1 route, 0 warnings"), "{}", good.out);
    for (text, code, words) in [
        (format!("{noop}config = {{ speed = 9 }}\n"), "PLUGIN.CONFIG", "takes no configuration"),
        ("[transport.a]\nplugin = \"backoff-fibonacci\"\n".to_owned(), "PLUGIN.OTHER_WORLD", "[transport.a]"),
        ("[outbox.backoff]\nplugin = \"noop\"\n".to_owned(), "PLUGIN.OTHER_WORLD", "outbox.backoff"),
        ("[transport.a]\nplugin = \"http\"\nallow = { net = [\"tcp://broker\"] }\n".to_owned(), "PLUGIN.GRANT", "port"),
        (
            "[transport.a]\nplugin = \"http\"\n".to_owned(),
            "PLUGIN.GRANT_MISSING",
            "allow.http = [\"https://HOST:PORT\"]",
        ),
        ("[transport.a]\nplugin = \"waybill.toml.wasm\"\n".to_owned(), "CONFIG.PLUGIN_MISSING", "No such file"),
    ] {
        let done = check(&text);
        assert_eq!(done.exit, Exit::Usage, "{text}{}", done.err);
        assert!(done.err.contains(code) && done.err.contains(words), "{text}{}", done.err);
    }
    std::fs::write(dir.path().join("text.wasm"), "hello").unwrap();
    let text = check("[transport.a]\nplugin = \"./text.wasm\"\n");
    assert!(text.err.contains("PLUGIN.NOT_A_COMPONENT"), "{}", text.err);
    let useless = check("[transport.a]\nplugin = \"noop\"\nallow = { net = [\"tcp://x:1\"] }\n");
    assert_eq!(useless.exit, Exit::Done, "{}", useless.err);
    assert!(useless.err.contains("opens nothing") && useless.err.contains("no [[route]]"), "{}", useless.err);
}

#[test]
fn settings_are_shown_with_their_origin_and_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("waybill.toml");
    std::fs::write(&file, "[store]\nurl = \"ws://db:8000\"\nuser = \"waybill\"\npassword = \"env:DB_PASSWORD\"\n[outbox]\nlease_ms = 15000\n").unwrap();
    let arguments = ["config", "show", "--origin", "--config", file.to_str().unwrap()];
    let done = waybill(&arguments).env("DB_PASSWORD", "hunter2").env("WAYBILL_OUTBOX_BATCH", "9").run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let line =
        |key: &str| done.out.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap_or_default().to_owned();
    assert!(
        line("outbox.owner_ttl").contains("15s") && line("outbox.owner_ttl").contains("waybill.toml:6:12"),
        "{}",
        done.out
    );
    assert!(line("outbox.batch").contains("environment WAYBILL_OUTBOX_BATCH"), "{}", done.out);
    assert!(line("store.password").contains("env:DB_PASSWORD"), "{}", done.out);
    assert!(line("outbox.max_attempts").contains("default"), "{}", done.out);
    assert!(!done.out.contains("hunter2"));
}

#[test]
fn the_path_of_a_file_to_be_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = |format: &str| {
        waybill(&["config", "path", "-o", format]).env("WAYBILL_DATA", dir.path().to_str().unwrap()).run()
    };
    let here = std::env::current_dir().unwrap().join("waybill.toml").display().to_string();
    assert_eq!(path("ids").out, format!("{here}\n"));
    let table = path("table").out;
    assert!(table.contains(&format!("{here} isn't there")) && table.contains(dir.path().to_str().unwrap()), "{table}");
}

#[test]
fn a_data_folder_that_cannot_be_used_is_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let data = file.to_str().unwrap();
    let check = waybill(&["config", "check", "--data", data]).run();
    assert!(
        check.err.contains("STORAGE.DIRECTORY") && check.err.contains("is a file: choose another"),
        "{}",
        check.err
    );
    let doctor = waybill(&["doctor", "--data", data]).run();
    assert!(doctor.out.contains("is a file: choose another") && !doctor.out.contains("cache"), "{}", doctor.out);
    let fresh = dir.path().join("fresh");
    let doctor = waybill(&["doctor", "--data", fresh.to_str().unwrap(), "-o", "jsonl"]).run();
    assert!(!fresh.join("store").exists(), "the doctor only looks: {}", doctor.out);
}

#[test]
fn the_doctor_tells_what_would_keep_a_host_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let file = dir.path().join("waybill.toml");
    let listen = taken.local_addr().unwrap();
    let text = format!(
        "[store]\nurl = \"surrealkv://./data\"\n[plugins]\ncache = \"./cache\"\n[server]\nlisten = \"{listen}\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let sick = waybill(&["doctor", "--config", file.to_str().unwrap(), "-o", "jsonl"]).run();
    assert_eq!(sick.exit, Exit::Failed, "{}", sick.out);
    let status = |out: &str, name: &str| {
        out.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .find(|check| check["name"] == name)
            .map(|check| check["status"].as_str().unwrap().to_owned())
    };
    assert_eq!(status(&sick.out, "port").as_deref(), Some("fail"));
    assert_eq!(status(&sick.out, "data folder").as_deref(), Some("ok"));
    assert_eq!(status(&sick.out, "plugins").as_deref(), Some("ok"));
    assert!(status(&sick.out, "event streams").is_some_and(|status| status != "fail"), "{}", sick.out);
    drop(taken);
    let well = waybill(&["doctor", "--config", file.to_str().unwrap(), "-o", "jsonl"]).run();
    assert_eq!(status(&well.out, "port").as_deref(), Some("ok"), "{}", well.out);
    std::fs::write(&file, "[outbox]\nbach = 1\n").unwrap();
    let wrong = waybill(&["doctor", "--config", file.to_str().unwrap()]).run();
    assert_eq!(wrong.exit, Exit::Failed);
    assert!(wrong.out.contains("CONFIG.UNKNOWN_KEY"), "{}", wrong.out);
}

#[test]
fn a_number_or_json_that_is_none_is_answered_with_what_is_taken() {
    for (arguments, words) in [
        (&["dead", "list", "--limit", "abc"] as &[&str], "write a whole number, 1 or more"),
        (&["audit", "list", "--limit", "0"], "write a whole number from 1 to 1000"),
        (&["dead", "replay", "--filter", "", "--rate", "1.5"], "write a whole number from 1 to 10000"),
        (&["stream", "append", "a", "--expected-seq", "abc"], "write a whole number, 0 or more"),
        (&["send", "--topic", "bus:a", "--payload", "{"], "it ends in the middle of an object (line 1, column 1)"),
    ] {
        let done = waybill(arguments).run();
        assert_eq!(done.exit, Exit::Usage, "{}", done.err);
        assert!(done.err.contains(words), "{arguments:?}: {}", done.err);
    }
}
