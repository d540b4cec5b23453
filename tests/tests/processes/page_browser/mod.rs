//! The page at `/ui` of a real host in a real chromium: every view and state in widths and themes, with and without script; every act by
//! keyboard; what is done once; while it changes; signed in and out; when its host stands still or is killed. What is checked of each stands
//! in `tests/clients/page`, whose driver prints a line a check. A run makes a choice of the checks and says what it left out; `cargo xtask test --full` makes all.

mod checks;
mod choice;
mod mortal;
mod scene;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use waybill_testkit::browser::find_browser;
use waybill_testkit::extent::{is_full, leave_out};

use crate::generated_clients::{node_and_packages, run_within};
use checks::Choice;
use mortal::Mortal;
use scene::Scene;

/// Far longer than all checks of a run take on a busy machine: a browser that hangs must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(900);
/// The same of a full run, which makes some four times as many, with 100,000 dead letters.
const PATIENCE_IN_FULL: Duration = Duration::from_secs(3_600);

/// Puts the driver beside what it needs.
fn driver(dir: &Path, packages: &Path) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/page");
    for file in std::fs::read_dir(programs).unwrap().map(Result::unwrap) {
        // Somebody may have installed the packages there.
        if file.path().is_file() {
            std::fs::copy(file.path(), dir.join(file.file_name())).unwrap();
        }
    }
    std::os::unix::fs::symlink(packages, dir.join("node_modules")).unwrap();
    dir.join("main.mjs")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_is_sound_in_a_real_browser_and_is_driven_by_keys_alone() {
    let (node, packages) = node_and_packages("page");
    let chromium = find_browser().expect("chromium is installed");
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::set(dir.path()).await;
    let mortal = Mortal::start(dir.path()).await;
    let choice = Choice::new(is_full());
    let pictures: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    if pictures.exists() {
        // Those of checks that aren't made any more would be taken for new ones.
        std::fs::remove_dir_all(&pictures).unwrap();
    }
    std::fs::create_dir_all(&pictures).unwrap();

    let mut given = scene.given.clone();
    given["chromium"] = chromium.display().to_string().into();
    given["profile"] = dir.path().join("profile").display().to_string().into();
    given["pictures"] = pictures.display().to_string().into();
    given["views"] = choice.views(&scene.operation).into();
    given["checks"] = choice.names().into();
    given["others"] = choice.others().into();
    given["isFull"] = Value::from(is_full());
    given["mortal"] = mortal.given.clone();
    // Too long for an argument.
    let file = dir.path().join("given.json");
    std::fs::write(&file, given.to_string()).unwrap();
    let patience = if is_full() { PATIENCE_IN_FULL } else { PATIENCE };
    let mut driving = Command::new(node);
    driving.arg(driver(dir.path(), &packages)).arg(&file).current_dir(dir.path()).env("HOME", dir.path());
    let mut driven = pin!(run_within(patience, &mut driving));
    let mut dying = pin!(mortal.die_when_asked());
    let mut started_again = None;
    let said = loop {
        tokio::select! {
            said = &mut driven => break said,
            host = &mut dying, if started_again.is_none() => started_again = Some(host),
        }
    };

    // To stderr itself, which the test harness doesn't capture. Without a stderr there is nobody to tell.
    let took = said.lines().filter_map(|line| line.strip_prefix("took ")).collect::<Vec<_>>().join(", ");
    let _gone = writeln!(std::io::stderr(), "\nthe page in a browser: {took}; pictures are in {}", pictures.display());
    choice.left_out().iter().for_each(|what| leave_out(what));
    let failed: Vec<&str> = said.lines().filter(|line| line.starts_with("not ok ")).collect();
    assert!(failed.is_empty(), "pictures are in {}:\n{}", pictures.display(), failed.join("\n"));
    let mut done: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    let mut expected = choice.names();
    done.sort_unstable();
    expected.sort_unstable();
    assert_eq!(done, expected, "{said}");
    let started_again = started_again.expect("the driver had a host killed");
    assert!(started_again.terminate(PATIENCE).await.unwrap().success());
    scene.end().await;
}
