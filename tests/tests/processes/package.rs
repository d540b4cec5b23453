//! What `cargo xtask dist` gives away: checksums and their signature, the list of parts, the package's files, modes and service, the
//! image ([`super::image`]), and the binary in both, run from where it was unpacked. And what the host tells the service manager that
//! started it.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use waybill_testkit::process::{Host, Launch, binary};

/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(120);
/// Of 10; what systemd itself calls "OK" is below 4.
const EXPOSURE_MAX_TENTHS: &str = "20";

pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    output
}

pub fn text(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).unwrap()
}

/// The file in a folder whose name ends so.
pub fn file(folder: &Path, ending: &str) -> PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(|file| file.to_str().unwrap().ends_with(ending)).unwrap_or_else(|| panic!("there is no *{ending}"))
}

/// Once for all of it: it takes half a minute.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_away_is_whole_and_runs_where_it_is_unpacked() {
    let place = tempfile::tempdir().unwrap();
    let (key, folder) = (place.path().join("key"), place.path().join("dist"));
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key));
    let waybill = binary().unwrap();
    let xtask = waybill.with_file_name("xtask");
    assert!(xtask.is_file(), "there is no {}: run the tests by `cargo xtask test`", xtask.display());
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut dist = Command::new(xtask);
    dist.arg("dist").current_dir(workspace).env("WAYBILL_BIN", waybill).env("WAYBILL_DIST", &folder);
    let said = text(dist.env("WAYBILL_SIGN_KEY", &key));
    println!("{said}");
    everything_is_summed_and_signed(&folder, &key);
    the_parts_are_those_of_the_lock_file(&folder);
    the_package_installs_a_binary_that_runs_and_a_service_that_is_fenced_in(&folder);
    super::image::the_image_is_whole_and_its_host_is_well(&folder).await;
}

fn everything_is_summed_and_signed(folder: &Path, key: &Path) {
    run(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(folder));
    let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.filter(|name| !name.starts_with("SHA256SUMS")).collect();
    assert_eq!(names.len(), sums.lines().count(), "{names:?}\n{sums}");
    for name in &names {
        assert!(sums.lines().any(|line| line.ends_with(&format!(" {name}"))), "{name} isn't in\n{sums}");
    }
    assert!(names.iter().any(|name| name.contains("-glibc2.") && !name.ends_with(".debug")), "{names:?}");

    // As docs/operations.md has it.
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let signers = key.with_file_name("signers");
    std::fs::write(&signers, format!("releases@waybill {public}")).unwrap();
    let mut verify = Command::new("ssh-keygen");
    verify.args(["-Y", "verify", "-n", "file", "-I", "releases@waybill", "-s", "SHA256SUMS.sig", "-f"]).arg(signers);
    run(verify.current_dir(folder).stdin(std::fs::File::open(folder.join("SHA256SUMS")).unwrap()));
}

fn the_parts_are_those_of_the_lock_file(folder: &Path) {
    let parts: Value = serde_json::from_slice(&std::fs::read(file(folder, ".cdx.json")).unwrap()).unwrap();
    assert_eq!((&parts["bomFormat"], &parts["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let digest = parts["metadata"]["component"]["hashes"][0]["content"].as_str().unwrap();
    let line = sums.lines().find(|line| line.starts_with(digest)).unwrap_or_default();
    assert!(line.contains("-glibc2."), "{digest} isn't the binary's\n{sums}");
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("Cargo.lock");
    let lock = std::fs::read_to_string(lock).unwrap();
    let components = parts["components"].as_array().unwrap();
    for name in ["surrealdb-core", "wasmtime"] {
        let part = components.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("{name} is missing"));
        let version = part["version"].as_str().unwrap();
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "{name} {version}");
        assert_eq!(part["purl"], format!("pkg:cargo/{name}@{version}"));
    }
    let licensed = components.iter().filter(|part| part["licenses"][0]["expression"].is_string()).count();
    assert!(licensed * 10 > components.len() * 9, "{licensed} of {}", components.len());
}

fn the_package_installs_a_binary_that_runs_and_a_service_that_is_fenced_in(folder: &Path) {
    let package = file(folder, ".deb");
    // No root is needed for this; who installs it as root gets the same files.
    let root = folder.join("package-root");
    run(Command::new("dpkg-deb").arg("-x").args([&package, &root]));
    let waybill = root.join("usr/bin/waybill");
    assert_eq!(std::fs::metadata(&waybill).unwrap().permissions().mode() & 0o777, 0o755);
    let version = text(Command::new(&waybill).arg("version"));
    assert!(
        version.contains(text(Command::new("dpkg-deb").arg("-f").arg(&package).arg("Version")).trim()),
        "{version}"
    );
    run(Command::new(&waybill).args(["config", "check", "--config"]).arg(root.join("etc/waybill/waybill.toml")));
    let listing = text(Command::new("dpkg-deb").arg("-c").arg(&package));
    assert!(listing.lines().all(|line| line.contains(" root/root ")), "{listing}");
    for file in [
        "usr/share/man/man1/waybill.1.gz",
        "usr/share/man/man1/waybill-dead-replay.1.gz",
        "usr/share/bash-completion/completions/waybill",
        "usr/share/doc/waybill/copyright",
    ] {
        assert!(root.join(file).is_file(), "{file} is missing in\n{listing}");
    }
    let page = text(Command::new("gzip").arg("-dc").arg(root.join("usr/share/man/man1/waybill-send.1.gz")));
    assert!(page.contains("--topic") || page.contains("\\-\\-topic"), "{page}");
    let control = text(Command::new("dpkg-deb").args(["-I"]).arg(&package).arg("conffiles"));
    assert_eq!(control.trim(), "/etc/waybill/waybill.toml");
    for script in ["postinst", "prerm", "postrm"] {
        let script = text(Command::new("dpkg-deb").arg("-I").arg(&package).arg(script));
        run(Command::new("sh").args(["-n", "-c", &script]));
    }

    // The units that it refers to are the system's.
    let units = root.join("lib/systemd/system");
    run(Command::new("cp").args(["-rn", "/lib/systemd/system/."]).arg(&units));
    // As are the programs that it starts.
    let kill = root.join("bin/kill");
    std::fs::create_dir_all(root.join("bin")).unwrap();
    std::fs::write(&kill, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&kill, std::fs::Permissions::from_mode(0o755)).unwrap();
    let within = format!("--root={}", root.display());
    let verified = run(Command::new("systemd-analyze").args(["verify", "--man=no", &within, "waybill.service"]));
    assert_eq!(String::from_utf8_lossy(&verified.stderr), "");
    let threshold = format!("--threshold={EXPOSURE_MAX_TENTHS}");
    let exposure = text(Command::new("systemd-analyze").args([
        "security",
        "--offline=true",
        &threshold,
        &within,
        "waybill.service",
    ]));
    println!("{}", exposure.trim().lines().last().unwrap_or_default());
}

/// Messages that come until one has this line.
fn until(socket: &UnixDatagram, line: &str) -> Vec<String> {
    let (began, mut lines) = (Instant::now(), Vec::new());
    let mut buffer = [0; 4_096];
    while began.elapsed() < PATIENCE {
        match socket.recv(&mut buffer) {
            Ok(length) => lines.extend(String::from_utf8_lossy(&buffer[..length]).lines().map(str::to_owned)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("{error}"),
        }
        if lines.iter().any(|said| said == line) {
            return lines;
        }
    }
    panic!("`{line}` didn't come; {lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_manager_hears_that_the_host_serves_and_how_long_it_drains() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("notify");
    let socket = UnixDatagram::bind(&place).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let config = "[store]\nurl = \"surrealkv://./data\"\n[server]\nlisten = \"127.0.0.1:0\"\ndrain_timeout = \"7s\"\n\
                  [plugins]\ncache = \"./cache\"\n";
    let mut launch = Launch::prepare(binary().unwrap(), dir.path(), config).unwrap();
    launch.environment = vec![("NOTIFY_SOCKET", place.into_os_string())];
    let (host, api) = Host::ready(&launch).await.unwrap();
    let said = until(&socket, "STATUS=ready");
    let listening = format!("STATUS=listening on {}", api.base());
    let (ready, status) =
        (said.iter().position(|line| line == "READY=1"), said.iter().position(|line| *line == listening));
    assert!(ready.is_some() && status.is_some(), "{said:?}");
    let status = host.terminate(PATIENCE).await.unwrap();
    assert!(status.success(), "{status}");
    let said = until(&socket, "STATUS=draining");
    assert!(said.contains(&"STOPPING=1".to_owned()), "{said:?}");
    let extended = said.iter().find_map(|line| line.strip_prefix("EXTEND_TIMEOUT_USEC=")).unwrap();
    assert!(extended.parse::<u64>().unwrap() > 7_000_000, "{extended}");
}
