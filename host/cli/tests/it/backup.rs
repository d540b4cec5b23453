//! `waybill backup` of a running host, and `waybill restore` of it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use waybill_cli::exit::Exit;

use crate::serve::{Host, ask, noop};
use crate::support::{Done, waybill};

fn send(url: &str, id: &str) {
    let sent = ask(url, &["send", "--topic", "bus:a", "--id", id, "--not-before", "1h", "--payload", "1"]);
    assert_eq!(sent.exit, Exit::Done, "{}", sent.err);
}

fn ids(url: &str) -> String {
    ask(url, &["outbox", "list", "-o", "ids"]).out
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn restore(config: &str, backup: &Path, data: &Path, further: &[&str]) -> Done {
    waybill(&["restore", name(backup), "--data", name(data), "--config", config]).args(further).run()
}

#[test]
fn a_backup_of_a_running_host_is_restored_with_what_waits_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let config = noop(dir.path());
    let mut host = Host::start(dir.path(), &["--config", &config]);
    let url = host.url();
    host.says("INFO ready");
    send(&url, "order-1");
    let made = ask(&url, &["backup", name(&at("monday.wb"))]);
    assert_eq!(made.exit, Exit::Done, "{}", made.err);
    assert!(made.err.contains("read again and whole") && made.out.is_empty(), "{made:?}");
    assert_eq!(at("monday.wb").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!at("monday.wb.part").exists());
    let trail = ask(&url, &["audit", "list", "-o", "json"]);
    assert!(trail.out.contains("BackupTaken"), "{}", trail.out);
    let again = ask(&url, &["backup", name(&at("monday.wb"))]);
    assert!(again.exit == Exit::Usage && again.err.contains("is there already"), "{again:?}");
    // One that was killed left it.
    std::fs::write(at("tuesday.wb.part"), "half").unwrap();
    send(&url, "order-2");
    let made = ask(&url, &["backup", name(&at("tuesday.wb")), "--earlier", name(&at("monday.wb"))]);
    assert_eq!(made.exit, Exit::Done, "{}", made.err);
    send(&url, "order-3");
    host.signal(Signal::TERM);
    assert!(host.ended().0.success());

    let restored = restore(&config, &at("monday.wb"), &at("one"), &["--verify", "-o", "json"]);
    assert_eq!(restored.exit, Exit::Done, "{}", restored.err);
    let listed: Value = serde_json::from_str(&restored.out).unwrap();
    assert_eq!((listed[0]["id"].as_str(), listed.as_array().unwrap().len()), (Some("order-1"), 1));
    assert!(restored.err.contains("1 message wasn't delivered when the backup was made"), "{}", restored.err);
    let used = restore(&config, &at("monday.wb"), &at("one"), &[]);
    assert!(used.exit == Exit::Conflict && used.err.contains("STORAGE.DIRECTORY"), "{used:?}");

    let alone = restore(&config, &at("tuesday.wb"), &at("two"), &[]);
    assert!(alone.exit == Exit::Failed && alone.err.contains("STORAGE.BACKUP_UNREADABLE"), "{alone:?}");
    // The folder is as a restore leaves it that was killed.
    let earlier = at("monday.wb");
    let restored = restore(&config, &at("tuesday.wb"), &at("two"), &["--earlier", name(&earlier), "-o", "ids"]);
    assert_eq!((restored.exit, restored.out.as_str()), (Exit::Done, "order-1\norder-2\n"), "{}", restored.err);
    let mut host = Host::start(dir.path(), &["--config", &config, "--data", "two"]);
    let url = host.url();
    host.says("INFO ready");
    let mut found: Vec<String> = ids(&url).lines().map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, ["order-1", "order-2"]);
}

#[test]
fn half_a_backup_is_served_by_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let config = noop(dir.path());
    let mut host = Host::start(dir.path(), &["--config", &config]);
    let url = host.url();
    host.says("INFO ready");
    send(&url, "order-1");
    assert_eq!(ask(&url, &["backup", name(&at("whole.wb"))]).exit, Exit::Done);
    drop(host);
    let whole = std::fs::read(at("whole.wb")).unwrap();
    std::fs::write(at("half.wb"), &whole[..whole.len() / 2]).unwrap();
    let refused = restore(&config, &at("half.wb"), &at("new"), &[]);
    assert!(refused.exit == Exit::Failed && refused.err.contains("STORAGE.BACKUP_UNREADABLE"), "{refused:?}");
    let host = Host::start(dir.path(), &["--config", &config, "--data", "new"]);
    let (status, told) = host.ended();
    assert!(!status.success() && told.contains("was cut off"), "{told}");
    assert_eq!(restore(&config, &at("whole.wb"), &at("new"), &[]).exit, Exit::Done);
}

#[test]
fn a_host_in_memory_is_not_backed_up() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("waybill.toml"), "[store]\nurl = \"mem://\"\n[server]\nlisten = \"127.0.0.1:0\"\n")
        .unwrap();
    let mut host = Host::start(dir.path(), &[]);
    let url = host.url();
    host.says("INFO ready");
    let file = dir.path().join("backup.wb");
    let refused = ask(&url, &["backup", name(&file)]);
    assert!(refused.exit == Exit::Conflict && refused.err.contains("STORAGE.BACKUP_ELSEWHERE"), "{refused:?}");
    assert!(!file.exists() && !dir.path().join("backup.wb.part").exists());
}
