//! What goes wrong for authors, and what they are told.

use crate::support::{fails, project_at, waybill, well};

#[test]
fn a_name_a_folder_or_a_language_that_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("precious"), "x").unwrap();
    for (arguments, says) in [
        (&["--world", "transport", "--lang", "rust", "My_Plugin"][..], "lower-case"),
        (&["--world", "transport", "--lang", "rust", "test"], "keeps the name"),
        (&["--world", "transport", "--lang", "rust", "taken"], "isn't empty"),
        (&["--world", "backoff", "--lang", "python", "slow"], "CPython"),
        (&["--world", "transport", "--lang", "js", "x", "--sdk", "."], "Rust"),
        (&["--world", "transport", "--lang", "rust", "x", "--sdk", "."], "waybill-plugin"),
    ] {
        let mut command = waybill(&["plugin", "new"]);
        let said = fails(command.args(arguments).current_dir(&dir), 2);
        assert!(said.contains(says) && said.contains("fix "), "{said}");
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing was made");
}

#[test]
fn a_folder_that_is_no_project() {
    let dir = tempfile::tempdir().unwrap();
    let said = fails(waybill(&["plugin", "build"]).current_dir(&dir), 2);
    assert!(said.contains("PLUGIN.PROJECT") && said.contains("waybill plugin new"), "{said}");
}

#[test]
fn tools_that_are_missing_are_named_with_what_to_do() {
    let empty = tempfile::tempdir().unwrap();
    for (language, says) in [("rust", "rustup.rs"), ("js", "nodejs.org"), ("python", "pip install -r requirements.txt")]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x").display().to_string();
        well(&mut waybill(&["plugin", "new", "--world", "transport", "--lang", language, "x", "--dir", &path]));
        let said = fails(waybill(&["plugin", "build", &path]).env("PATH", empty.path()), 1);
        assert!(said.contains("PLUGIN.TOOL_MISSING") && said.contains(says), "{said}");
    }
    // node is there, and nobody ran npm.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x").display().to_string();
    well(&mut waybill(&["plugin", "new", "--world", "transport", "--lang", "js", "x", "--dir", &path]));
    let said = fails(&mut waybill(&["plugin", "build", &path]), 1);
    assert!(said.contains("PLUGIN.TOOL_MISSING") && said.contains("npm install"), "{said}");
}

#[test]
fn what_the_tool_complains_of_is_shown() {
    let dir = project_at("js-broken", "transport", "js", &[]);
    let entry = dir.join("src/plugin.js");
    let good = std::fs::read_to_string(&entry).unwrap();
    std::fs::write(&entry, format!("{good}\nthis is no JavaScript")).unwrap();
    let said = fails(waybill(&["plugin", "build", "--out", "broken.wasm"]).current_dir(&dir), 1);
    std::fs::write(&entry, good).unwrap();
    assert!(said.contains("PLUGIN.BUILD_FAILED") && said.contains("jco"), "{said}");
    assert!(!dir.join("broken.wasm").exists());
}
