//! `waybill token`: by a host, and while none runs.

use rustix::process::Signal;
use serde_json::Value;
use waybill_cli::exit::Exit;

use crate::host::TestHost;
use crate::serve::{Host, ask, noop};
use crate::support::{Command, waybill};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Where people sign in. Nobody asks it anything before somebody does.
const PROVIDER: &str = "[auth.oidc]\nissuer = \"https://login.example\"\nclient_id = \"waybill\"\nsecret = \"file:secret\"\n\
                        roles = { ops = \"admin\" }\n";

fn asked(host: &TestHost, arguments: &[&str]) -> Command {
    waybill(arguments).arg("--url").arg(&host.url)
}

#[test]
fn a_token_is_written_once_listed_and_revoked() {
    let host = TestHost::empty();
    let create = [
        "token",
        "create",
        "ci",
        "--role",
        "viewer",
        "--role",
        "append:build.**",
        "--tenant",
        "acme",
        "--expires",
        "90d",
    ];
    let made = asked(&host, &create).run();
    assert_eq!(made.exit, Exit::Done, "{}", made.err);
    assert!(made.out.starts_with("wb_") && made.out.trim_end().len() == 67 && made.out.lines().count() == 1);
    assert!(made.err.contains("made ci, for acme as viewer, append:build.**, good until "), "{}", made.err);
    assert!(!made.err.contains("wb_"), "{}", made.err);
    let quiet = asked(&host, &["token", "create", "dev", "--role", "viewer", "-q"]).run();
    assert!(quiet.out.starts_with("wb_") && quiet.err.is_empty(), "{quiet:?}");
    let as_json = asked(&host, &["token", "create", "ops", "--role", "admin", "-o", "json"]).run();
    let read: Value = serde_json::from_str(&as_json.out).unwrap();
    assert_eq!((&read["stored"]["name"], &read["stored"]["expires_at"]), (&Value::from("ops"), &Value::Null));
    assert!(read["token"].as_str().unwrap().starts_with("wb_"));

    let taken = asked(&host, &["token", "create", "ci", "--role", "viewer"]).run();
    assert_eq!((taken.exit, taken.out.as_str()), (Exit::Conflict, ""));
    assert!(taken.err.contains("AUTH.TOKEN_TAKEN"), "{}", taken.err);
    let list = asked(&host, &["token", "list"]).run();
    assert!(list.out.contains("viewer, append:build.**") && !list.out.contains(made.out.trim_end()), "{}", list.out);
    assert_eq!(asked(&host, &["token", "list", "-o", "ids"]).run().out, "ci\ndev\nops\n");

    let revoked = asked(&host, &["token", "revoke", "ci", "-"]).input("dev\n").run();
    assert_eq!(revoked.exit, Exit::Done, "{}", revoked.err);
    assert!(revoked.err.contains("revoked ci") && revoked.err.contains("revoked dev"), "{}", revoked.err);
    let gone = asked(&host, &["token", "revoke", "ci"]).run();
    assert!(gone.exit == Exit::NotFound && gone.err.contains("AUTH.TOKEN_NOT_FOUND"), "{gone:?}");
    assert_eq!(
        host.acts(),
        ["TokenCreated ci", "TokenCreated dev", "TokenCreated ops", "TokenRevoked ci", "TokenRevoked dev"]
    );
}

#[test]
fn a_token_without_a_role_is_a_mistake_of_the_command_line() {
    let done = waybill(&["token", "create", "ci"]).run();
    assert_eq!(done.exit, Exit::Usage);
    assert!(done.err.contains("--role"), "{}", done.err);
    let both =
        waybill(&["token", "create", "ci", "--role", "viewer", "--data", "gone", "--url", "http://127.0.0.1:1"]).run();
    assert!(both.exit == Exit::Usage && both.err.contains("CLI.USAGE") && both.err.contains("--url"), "{both:?}");
    let in_memory = waybill(&["token", "create", "ci", "--role", "viewer", "--config", "gone.toml"]).run();
    assert!(in_memory.exit == Exit::Usage && in_memory.err.contains("CONFIG.FILE"), "{in_memory:?}");
}

#[test]
fn the_first_token_is_made_while_no_host_runs_and_revoking_it_opens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let config = noop(dir.path());
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}[auth]\nrequired = true\n")).unwrap();
    let create = |name: &str| waybill(&["token", "create", name, "--role", "admin", "--config", &config, "-q"]).run();
    let made = create("ops");
    assert_eq!((made.exit, made.err.as_str()), (Exit::Done, ""), "{}", made.out);
    let token = made.out.trim_end();
    assert_eq!(create("ops").exit, Exit::Conflict, "its name is taken");

    let mut host = Host::start(dir.path(), &["--config", &config]);
    let url = host.url();
    let refused = ask(&url, &["outbox", "stats"]);
    assert!(refused.exit == Exit::NotAllowed && refused.err.contains("AUTH.REQUIRED"), "{refused:?}");
    let known = |arguments: &[&str]| waybill(arguments).args(&["--url", &url]).env("WAYBILL_TOKEN", token).run();
    assert_eq!(known(&["token", "list", "-o", "ids"]).out, "ops\n");
    let held = create("second");
    assert_eq!(held.exit, Exit::Conflict, "{held:?}");
    assert!(held.err.contains("STORAGE.LOCKED") && held.out.is_empty(), "{held:?}");

    assert_eq!(known(&["token", "revoke", "ops"]).exit, Exit::Done);
    let over = known(&["token", "list"]);
    assert_eq!(over.exit, Exit::NotAllowed, "{over:?}");
    assert!(over.err.contains("AUTH.NO_TOKENS") && over.err.contains("waybill token create"), "{}", over.err);
    host.signal(Signal::TERM);
    let (status, told) = host.ended();
    assert!(status.success(), "{told}");
}

#[test]
fn a_host_that_nothing_tells_whether_to_ask_does_not_start_where_tokens_are_stored() {
    let dir = tempfile::tempdir().unwrap();
    let config = noop(dir.path());
    let text = std::fs::read_to_string(&config).unwrap();
    let made = waybill(&["token", "create", "ops", "--role", "admin", "--config", &config]).run();
    assert_eq!(made.exit, Exit::Done, "{}", made.err);
    for note in ["is new: only a host that is started on it", "when [auth] required is written"] {
        assert!(made.err.contains(note), "{}", made.err);
    }
    let (status, told) = Host::start(dir.path(), &["--config", &config]).ended();
    assert_eq!(status.code(), Some(Exit::Usage as i32), "{told}");
    assert!(told.contains("CONFIG.MISSING") && told.contains("write [auth] required"), "{told}");
    for (required, exit) in [(true, Exit::NotAllowed), (false, Exit::Done)] {
        std::fs::write(&config, format!("{text}[auth]\nrequired = {required}\n")).unwrap();
        let mut host = Host::start(dir.path(), &["--config", &config]);
        assert_eq!(ask(&host.url(), &["outbox", "stats"]).exit, exit);
        host.signal(Signal::TERM);
        let (status, told) = host.ended();
        assert!(status.success(), "{told}");
    }
}

/// As whoever does it with `sudo` in the place of the host's user. Only root can try.
#[test]
fn no_token_is_made_in_the_data_folder_of_another_user() {
    let dir = tempfile::tempdir().unwrap();
    let config = noop(dir.path());
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let nobody = Some(65_534);
    if let Err(error) = std::os::unix::fs::chown(&data, nobody, nobody) {
        eprintln!("not checked: not root ({error})");
        return;
    }
    let refused = waybill(&["token", "create", "ops", "--role", "admin", "--config", &config]).run();
    assert!(refused.exit == Exit::Failed && refused.err.contains("STORAGE.DIRECTORY"), "{refused:?}");
    assert!(refused.err.contains("another user") && refused.out.is_empty(), "{refused:?}");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "nothing is put there");
}

#[test]
#[cfg(target_os = "linux")]
fn a_token_that_could_not_be_written_is_named_so_that_it_can_be_revoked() {
    let host = TestHost::empty();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_waybill"))
        .args(["token", "create", "ci", "--role", "viewer", "--url", &host.url])
        .stdout(full)
        .output()
        .unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(Exit::Failed as i32), "{told}");
    assert!(told.contains("CLI.IO") && told.contains("`waybill token revoke ci`"), "{told}");
    assert_eq!(asked(&host, &["token", "revoke", "ci"]).run().exit, Exit::Done);
}

/// A host with a token and `before`, whose file then has `after` alone. `changed` is a setting that the reload names.
fn a_reload_without_the_token_opens_nothing(before: &str, after: &str, changed: &str) {
    let dir = tempfile::tempdir().unwrap();
    let config = noop(dir.path());
    let text = std::fs::read_to_string(&config).unwrap();
    for file in ["token", "secret"] {
        std::fs::write(dir.path().join(file), TOKEN).unwrap();
    }
    let token = "[[auth.token]]\nname = \"ops\"\ntoken_file = \"token\"\nroles = [\"admin\"]\n";
    std::fs::write(&config, format!("{text}{token}{before}")).unwrap();
    let mut host = Host::start(dir.path(), &["--config", &config]);
    let url = host.url();
    let known = |arguments: &[&str]| waybill(arguments).args(&["--url", &url]).env("WAYBILL_TOKEN", TOKEN).run();
    std::fs::write(&config, format!("{text}{after}")).unwrap();
    let reloaded = known(&["config", "reload"]);
    assert_eq!(reloaded.exit, Exit::Done, "{}", reloaded.err);
    assert!(reloaded.out.contains(changed), "{}", reloaded.out);
    for done in [known(&["outbox", "stats"]), ask(&url, &["outbox", "stats"])] {
        assert!(done.exit == Exit::NotAllowed && done.err.contains("AUTH.NO_TOKENS"), "{done:?}");
    }
    host.signal(Signal::TERM);
    assert!(host.ended().0.success());
}

#[test]
fn tokens_that_a_reload_takes_away_open_nothing() {
    a_reload_without_the_token_opens_nothing("", "", "auth.required");
}

#[test]
fn nor_do_they_where_people_sign_in_at_a_provider() {
    a_reload_without_the_token_opens_nothing(PROVIDER, PROVIDER, "auth.token[0].name");
    a_reload_without_the_token_opens_nothing(PROVIDER, "", "auth.required");
}
