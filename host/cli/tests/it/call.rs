//! `waybill plugin call` and `[participant.NAME]`: what is refused before anything runs. What runs is tested with real
//! components, in the crate of tests across crates.

use waybill_cli::exit::Exit;

use crate::support::waybill;

fn refused(arguments: &[&str]) -> (Exit, String) {
    let done = waybill(arguments).run();
    assert_eq!(done.out, "", "nothing is a result");
    (done.exit, done.err)
}

#[test]
fn what_cannot_be_called_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("waybill.toml");
    std::fs::write(&config, "[store]\nurl = \"mem://\"\n[participant.shop]\nplugin = \"http\"\n").unwrap();
    let config = config.display().to_string();
    for (arguments, exit, says) in [
        (vec!["fn:orders/reserve"], Exit::NotFound, "PLUGIN.NO_PARTICIPANT"),
        (vec!["fn:orders/reserve"], Exit::NotFound, "there are shop"),
        (vec!["fn:Orders/reserve"], Exit::Usage, "PLUGIN.STEP_ADDRESS"),
        (vec!["fn:shop/reserve"], Exit::Usage, "PLUGIN.OTHER_WORLD"),
        (vec!["fn:shop/reserve", "--input", "{"], Exit::Usage, "--input isn't JSON"),
        (vec!["fn:shop/reserve", "--context", "saga-id"], Exit::Usage, "NAME=VALUE"),
        (vec!["fn:shop/reserve", "--context", "attempt=x"], Exit::Usage, "isn't a number"),
        (vec!["fn:shop/reserve", "--allow", "https://x"], Exit::Usage, "--allow can't be given"),
        (vec!["fn:shop/reserve", "--output-of", "{}"], Exit::Usage, "--compensate"),
        (vec!["gone.wasm", "reserve"], Exit::NotFound, "CONFIG.PLUGIN_MISSING"),
        (vec!["gone.wasm"], Exit::Usage, "STEP"),
        (vec!["waybill.toml", "reserve", "--secret", "key=swordfish"], Exit::NotFound, "CONFIG.PLUGIN_MISSING"),
    ] {
        let mut all = vec!["plugin", "call", "--config", &config];
        all.extend(&arguments);
        let (found, text) = refused(&all);
        assert_eq!(found, exit, "{arguments:?}: {text}");
        assert!(text.contains(says), "{arguments:?}: {text}");
    }
    let (_, text) = refused(&["plugin", "call", "--config", &config, "fn:orders/reserve"]);
    assert!(text.starts_with(&format!("configuration: {config}\n")), "{text}");
}

#[test]
fn a_file_that_is_no_participant_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let http = waybill_bundled::find("http").unwrap();
    let path = dir.path().join("http.wasm");
    std::fs::write(&path, http.component).unwrap();
    let path = path.display().to_string();
    let (exit, text) = refused(&["plugin", "call", &path, "reserve"]);
    assert_eq!(exit, Exit::Usage);
    assert!(text.contains("PLUGIN.OTHER_WORLD"), "{text}");
    let (exit, text) = refused(&["plugin", "call", &path, "reserve", "--secret", "key=swordfish"]);
    assert_eq!(exit, Exit::Usage);
    assert!(text.contains("isn't a reference") && !text.contains("swordfish"), "{text}");
}
