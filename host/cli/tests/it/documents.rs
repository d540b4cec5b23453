//! The documents say what the code does: every key, every other name, every error code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use waybill_cli::config::{Inputs, catalogue, load};
use waybill_core::code::Code;
use waybill_core::outbox::filter::{Filter, STATE_ALIASES};
use waybill_core::time::UnixMillis;
use waybill_server::aliases::{MESSAGE_ALIASES, Meaning};

/// One that could be random.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Plugins that the examples name.
const BUNDLED: [&str; 5] = ["http", "backoff-fibonacci", "nats", "nats-source", "postgres"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

/// Rows of the tables under a heading, cells without back quotes.
fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let mut inside = false;
    let mut rows = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') {
            inside = line.trim_start_matches('#').trim().replace('`', "") == heading;
        } else if inside && line.starts_with('|') && !line.starts_with("|---") {
            let line = line.replace("\\|", "\u{0}");
            rows.push(line.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect());
        }
    }
    assert!(rows.len() > 1, "no table under {heading:?}");
    rows.remove(0);
    rows
}

fn bare(cell: &str) -> &str {
    cell.trim_matches('`')
}

#[test]
fn the_configuration_page_has_every_key_with_its_default_and_no_other() {
    let text = document("configuration.md");
    let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for info in catalogue() {
        let heading = match info.section.as_str() {
            "route" | "stream" | "tenant" | "index" | "auth.token" => format!("[[{}]]", info.section),
            section => format!("[{section}]"),
        };
        let rows = rows(&text, &heading);
        let row = rows.iter().find(|row| bare(&row[0]) == info.key.name);
        let row = row.unwrap_or_else(|| panic!("docs/configuration.md has no {} under {heading}", info.key.name));
        if let Some(default) = &info.default {
            let written = bare(&row[2]);
            let as_duration = |text: &str| humantime::parse_duration(text).ok();
            let same = written == default
                || as_duration(written).is_some_and(|duration| as_duration(default) == Some(duration));
            assert!(same, "{heading} {}: the default is {default}, the page says {written}", info.key.name);
        }
        expected.entry(heading).or_default().insert(info.key.name.to_owned());
    }
    assert!(expected.len() >= 12, "{expected:?}");
    for (heading, keys) in expected {
        for row in rows(&text, &heading) {
            assert!(keys.contains(bare(&row[0])), "docs/configuration.md: {heading} has no key {}", row[0]);
        }
    }
}

#[test]
fn the_examples_of_the_pages_are_right() {
    let text = document("configuration.md");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), TOKEN).unwrap();
    let text = format!("{text}{}{}", document("inbox.md"), document("streams.md"));
    let mut examples = 0;
    for block in text.split("```toml").skip(1) {
        let toml = block.split("```").next().unwrap().replace("/run/secrets/shop-token", "token");
        let file = dir.path().join("waybill.toml");
        std::fs::write(
            &file,
            format!("{}{toml}", if toml.contains("[store]") { "" } else { "[store]\nurl = \"mem://\"\n" }),
        )
        .unwrap();
        let env = ["SHOP_SIGNING_SECRET", "SHOP_PASSWORD"].map(|name| (name.to_owned(), "x".to_owned())).into();
        let inputs = Inputs { file: Some(file), env, bundled: BUNDLED.to_vec(), ..Inputs::default() };
        if let Err(error) = load(&inputs) {
            panic!("{toml}\n{error}");
        }
        examples += 1;
    }
    assert_eq!(examples, 9);
}

/// What stands in a block of YAML (`key: |`), as whoever reads it gets it.
fn yaml_block(text: &str, key: &str) -> String {
    let (_, after) = text.split_once(&format!("{key}: |\n")).unwrap();
    let indent = " ".repeat(after.len() - after.trim_start_matches(' ').len());
    let lines = after.lines().take_while(|line| line.is_empty() || line.starts_with(&indent));
    lines.map(|line| line.get(indent.len()..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_configurations_that_are_given_away_are_right() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("orders"), TOKEN).unwrap();
    std::fs::write(dir.path().join("operations"), TOKEN.replace('0', "f")).unwrap();
    let text = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let kubernetes = text("examples/kubernetes/waybill.yaml");
    let image = format!("image: waybill:{}\n", env!("CARGO_PKG_VERSION"));
    assert!(kubernetes.contains(&image), "examples/kubernetes is of another version");
    for toml in [
        text("host/xtask/packaging/waybill.toml"),
        text("host/xtask/packaging/container.toml"),
        yaml_block(&kubernetes, "waybill.toml"),
    ] {
        let file = dir.path().join("waybill.toml");
        std::fs::write(&file, toml.replace("/run/tokens/", "")).unwrap();
        let inputs = Inputs { file: Some(file), bundled: BUNDLED.to_vec(), ..Inputs::default() };
        if let Err(error) = load(&inputs) {
            panic!("{toml}\n{error}");
        }
    }
}

/// What a setting is when `name = value` stands in `place`.
fn effective(place: &str, name: &str, value: &str, path: &str) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ops.token"), TOKEN).unwrap();
    let file = dir.path().join("waybill.toml");
    let mut env = BTreeMap::new();
    let mut toml = "[store]\nurl = \"mem://\"\n".to_owned();
    match place {
        "environment" => {
            env.insert(name.to_owned(), value.to_owned());
        }
        "auth.token" => toml += &format!("[[auth.token]]\nname = \"x\"\n{name} = {value}\n"),
        "source.NAME" => toml += &format!("[source.x]\nplugin = \"postgres\"\n{name} = {value}\n"),
        "consumer.NAME" => {
            toml += "[source.x]\nplugin = \"postgres\"\n";
            toml += &format!("[consumer.x]\nsource = \"x\"\nhandler = \"http://127.0.0.1/\"\n{name} = {value}\n");
        }
        section => toml += &format!("[{section}]\n{name} = {value}\n"),
    }
    std::fs::write(&file, &toml).unwrap();
    let inputs = Inputs { file: Some(file), env, bundled: vec!["postgres"], ..Inputs::default() };
    let config = load(&inputs).unwrap_or_else(|error| panic!("{toml}\n{error}"));
    let path = path.replace("auth.token.", "auth.token[0].").replace(".NAME.", ".x.");
    config.shown.into_iter().find(|shown| shown.path == path).unwrap_or_else(|| panic!("no {path}")).value
}

#[test]
fn every_other_name_of_a_setting_is_taken_and_means_what_the_page_says() {
    let rows = rows(&document("aliases.md"), "Settings");
    let mut written = BTreeSet::new();
    for row in &rows {
        let [_, place, name, path, example, same] = row.as_slice() else { panic!("{row:?}") };
        let (place, name, path) = (bare(place), bare(name), bare(path));
        let (section, key) = path.rsplit_once('.').unwrap();
        let theirs = effective(place, name, bare(example), path);
        assert_eq!(theirs, effective(section, key, bare(same), path), "{place} {name}");
        let unset = "\u{0}".to_owned();
        let default =
            catalogue().into_iter().find(|info| info.section == section && info.key.name == key).unwrap().default;
        assert_ne!(
            theirs.to_string().trim_matches('"'),
            default.unwrap_or(unset),
            "{name}: the example has to differ from the default"
        );
        written.insert(name.to_owned());
    }
    for info in catalogue() {
        for alias in info.key.aliases.iter().chain(info.key.env_aliases) {
            assert!(written.contains(alias.name), "docs/aliases.md doesn't have {}", alias.name);
        }
    }
}

#[test]
fn every_other_name_of_a_field_state_or_parameter_is_in_the_page_and_the_code() {
    let text = document("aliases.md");
    let fields: BTreeSet<(String, String, String)> = rows(&text, "Fields of a message")
        .iter()
        .map(|row| (bare(&row[1]).to_owned(), bare(&row[2]).to_owned(), row[3].clone()))
        .collect();
    let known: BTreeSet<(String, String, String)> = MESSAGE_ALIASES
        .iter()
        .map(|alias| {
            let value = match alias.meaning {
                Meaning::Same => "the same",
                Meaning::Subject => "`orders.created` is `bus:orders.created`",
                Meaning::Target => "`memory` is `custom:memory`",
            };
            (alias.theirs.to_owned(), alias.ours.name().to_owned(), value.to_owned())
        })
        .collect();
    assert_eq!(fields, known);
    let pairs = |heading: &str| -> BTreeSet<(String, String)> {
        rows(&text, heading).iter().map(|row| (bare(&row[1]).to_owned(), bare(&row[2]).to_owned())).collect()
    };
    let owned = |pairs: &[(&str, &str)]| -> BTreeSet<(String, String)> {
        pairs.iter().map(|(theirs, ours)| ((*theirs).to_owned(), (*ours).to_owned())).collect()
    };
    assert_eq!(pairs("States"), owned(&STATE_ALIASES));
    // The server's own test reads a list with it (`parameters_are_read_and_unknown_ones_refused`).
    assert_eq!(pairs("Query parameters"), owned(&[("resume_token", "cursor")]));
    for (theirs, ours) in pairs("Filters") {
        let value = if ours == "state" { "done" } else { "x" };
        let of = |field: &str| Filter::parse(&format!("{field}={value}"), UnixMillis(0));
        assert_eq!(of(&theirs).unwrap(), of(&ours).unwrap(), "{theirs}");
    }
}

/// Codes in a source: what stands alone in quotes, or at the beginning of a message, as `"WORD.WORD"` or `"WORD.WORD: ...`.
fn codes_in(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    // Examples in comments have codes of their own.
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    for piece in code.split('"') {
        let end = piece
            .find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_' || c == '.'))
            .unwrap_or(piece.len());
        let (word, rest) = piece.split_at(end);
        let dotted = word.contains('.')
            && word
                .split('.')
                .all(|part| part.len() > 1 && part.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()));
        if dotted && word.starts_with(|c: char| c.is_ascii_uppercase()) && (rest.is_empty() || rest.starts_with(": ")) {
            found.insert(word.to_owned());
        }
    }
    found
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name == "tests" {
            continue;
        }
        if path.is_dir() {
            sources(&path, all);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            all.push(path);
        }
    }
}

/// Crates whose codes reach nobody but their developers.
const INSIDE: [&str; 2] = ["testkit", "xtask"];
/// Codes without a dot, from the source documents.
const UNDOTTED: [&str; 5] =
    ["INVALID_OUTBOX", "FUTURE_EVENT", "SUSPECTED_POISON", "DUPLICATE_MESSAGE", "INVALID_TIMESTAMP"];

pub fn host_and_plugins() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for part in ["host", "plugins"] {
        for entry in std::fs::read_dir(root().join(part)).unwrap() {
            let folder = entry.unwrap().path();
            let inside = INSIDE.iter().any(|name| folder.ends_with(name));
            if folder.join("src").is_dir() && !inside {
                sources(&folder.join("src"), &mut files);
            }
        }
    }
    assert!(files.len() > 80, "the sources weren't found");
    files
}

/// Every code in the sources, `HTTP.<status>` as `HTTP.STATUS`.
fn all_codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    let mut whole = String::new();
    for file in host_and_plugins() {
        let text = std::fs::read_to_string(&file).unwrap();
        codes.extend(codes_in(&text).into_iter().map(|code| {
            let status =
                code.strip_prefix("HTTP.").is_some_and(|status| status.bytes().all(|byte| byte.is_ascii_digit()));
            if status { "HTTP.STATUS".to_owned() } else { code }
        }));
        whole.push_str(&text);
    }
    assert!(whole.contains("format!(\"HTTP.{status}\")"), "HTTP.STATUS stands for what this makes");
    codes.insert("HTTP.STATUS".to_owned());
    for code in UNDOTTED {
        assert!(whole.contains(&format!("\"{code}\"")), "{code} isn't used any more");
        codes.insert(code.to_owned());
    }
    codes
}

#[test]
fn every_error_code_has_a_page_and_every_page_a_code() {
    let pages: BTreeSet<String> = std::fs::read_dir(root().join("docs/errors"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().trim_end_matches(".md").to_owned())
        .filter(|name| name != "README")
        .collect();
    let codes = all_codes();
    let missing: Vec<&String> = codes.difference(&pages).collect();
    let idle: Vec<&String> = pages.difference(&codes).collect();
    assert!(missing.is_empty(), "no page in docs/errors: {missing:?}");
    assert!(idle.is_empty(), "pages without a code: {idle:?}");
    for code in &codes {
        let page = document(&format!("errors/{code}.md"));
        assert!(page.starts_with(&format!("# {code}\n")), "{code}");
        for heading in ["## Why", "## What to do"] {
            assert!(page.split(heading).nth(1).is_some_and(|text| text.trim().len() > 10), "{code}: {heading}");
        }
    }
}

/// The index has the first paragraph of every page. `UPDATE_ERRORS=1` writes it.
#[test]
fn the_index_of_error_codes_says_what_the_pages_say() {
    let index = document("errors/README.md");
    let table = "| code | what | seen as |\n|---|---|---|\n";
    let mut expected = index.split(table).next().unwrap().to_owned() + table;
    for code in all_codes() {
        let page = document(&format!("errors/{code}.md"));
        let paragraph = page.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
        let (what, seen) = paragraph.split_once(" Seen as: ").unwrap_or_else(|| panic!("{code}: where is it seen?"));
        expected += &format!("| [{code}]({code}.md) | {what} | {} |\n", seen.trim_end_matches('.'));
    }
    if std::env::var_os("UPDATE_ERRORS").is_some() {
        std::fs::write(root().join("docs/errors/README.md"), &expected).unwrap();
    }
    assert_eq!(document("errors/README.md"), expected, "run this test with UPDATE_ERRORS=1 and look at the difference");
}

/// A code that stays in the list when nobody tells it any more would keep its page.
#[test]
fn every_code_of_the_list_is_told_somewhere() {
    let told: BTreeSet<String> = host_and_plugins()
        .iter()
        .filter(|path| !path.starts_with(root().join("host/core/src/code")))
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let names = text.split("Code::").skip(1);
            let names =
                names.map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap());
            names
                .map(str::to_owned)
                .chain(codes_in(&text).iter().map(|code| code.replace('.', "_")))
                .collect::<Vec<_>>()
        })
        .collect();
    let idle: Vec<Code> = Code::all().filter(|code| !told.contains(&code.as_str().replace('.', "_"))).collect();
    assert!(idle.is_empty(), "nobody tells {idle:?}");
}

#[test]
fn the_pages_of_the_api_agree_with_its_statuses() {
    for code in Code::all().filter(|code| code.is_answer()) {
        let page = document(&format!("errors/{code}.md"));
        assert!(page.contains(&format!("HTTP {}", code.status())), "{code} is answered with {}", code.status());
    }
}

#[test]
fn codes_of_the_sources_are_kept() {
    let codes = all_codes();
    for row in rows(&document("aliases.md"), "Codes") {
        assert!(codes.contains(bare(&row[1])), "{}", row[1]);
        assert!(row[2].contains(&format!("errors/{}.md", bare(&row[1]))));
    }
}
