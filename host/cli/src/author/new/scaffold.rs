//! The files of a new project: templates with the names filled in, the contract, and for Rust the author's crate.
//!
//! Later layers win over earlier ones: what a world has in every language, what a language has in every world and in every one that
//! has the host's services, and what the two have together.

use std::collections::BTreeMap;
use std::path::Path;

use wit_parser::World;

use super::{AuthorWorld, Template, declarations, sdk};
use crate::author::project::Language;
use crate::author::{contract as types, tool};
use crate::exit::CliError;

/// Path and bytes of everything embedded by the build script.
const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/scaffold.rs"));

/// The example that the template `net` is made of.
const LEDGER: &str = "ledger/";

/// Files of a project by their path in it.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// The world's name in the manifest: JavaScript has no async imports, so it gets the one without them.
pub(super) fn world_name(world: AuthorWorld, language: Language) -> String {
    match (world, language) {
        (AuthorWorld::Backoff, _) | (_, Language::Rust | Language::Python) => world.as_str().to_owned(),
        (_, Language::Js) => format!("{}-basic", world.as_str()),
    }
}

/// All files of a project. `sdk` is the folder of the author's crate that is used instead of a copy.
pub(super) fn files(
    name: &str,
    (world, language, template): (AuthorWorld, Language, Template),
    sdk: Option<&Path>,
) -> Result<Files, CliError> {
    let (world_word, language_word) = (world.as_str(), language.as_str());
    let mut files = Files::new();
    let services = (world != AuthorWorld::Backoff).then(|| format!("templates/{language_word}/services/"));
    let common = format!("templates/{language_word}/common/");
    let layers = match template {
        Template::Net => vec![common, LEDGER.to_owned()],
        Template::Plain => {
            let own = format!("templates/{language_word}/{world_word}/");
            [Some(format!("templates/worlds/{world_word}/")), Some(common), services, Some(own)]
                .into_iter()
                .flatten()
                .collect()
        }
    };
    let about = if template == Template::Net { "net" } else { world_word };
    for layer in layers {
        for (path, bytes) in below(&layer) {
            let path = if path == "gitignore" { ".gitignore" } else { path };
            let mut template = text(bytes);
            if layer == LEDGER {
                // The example is named for what it speaks to; its codes and its manifest are the plugin's own.
                template =
                    template.replace("\"LEDGER.", "\"MY_PLUGIN.").replace("name = \"ledger\"", "name = \"my-plugin\"");
            }
            files.insert(path.to_owned(), filled(&template, name, about, world, language).into_bytes());
        }
    }
    add_contract(&mut files, world, language);
    match language {
        Language::Rust => add_sdk(&mut files, sdk)?,
        Language::Js => add_declarations(&mut files, world)?,
        Language::Python => {}
    }
    Ok(files)
}

/// The contract as the language's tools want it. The author's crate in Rust reads both packages where the repository has them; the other
/// tools read the package of the project's world, with what it uses below `deps`. The frozen copies stay out.
fn add_contract(files: &mut Files, world: AuthorWorld, language: Language) {
    let (plugin_folder, inbound_folder) = match (language, is_inbound(world)) {
        (Language::Rust, _) => ("wit", Some("wit/inbound")),
        (_, false) => ("wit", None),
        (_, true) => ("wit/deps/plugin", Some("wit")),
    };
    for (path, bytes) in contract() {
        let (name, folder) = match path.strip_prefix("inbound/") {
            Some(name) => (name, inbound_folder),
            None => (path, Some(plugin_folder)),
        };
        if let Some(folder) = folder
            && !name.contains('/')
        {
            files.insert(format!("{folder}/{name}"), bytes.to_vec());
        }
    }
}

/// The world as TypeScript declares it: what an editor knows of the contract.
fn add_declarations(files: &mut Files, world: AuthorWorld) -> Result<(), CliError> {
    let contract = types::resolved().map_err(|error| tool::failed(format!("the embedded contract: {error}")))?;
    let package = if is_inbound(world) { "inbound" } else { "plugin" };
    let name = world_name(world, Language::Js);
    let is_it = |of: &World| {
        let home = of.package.and_then(|id| contract.packages.get(id));
        of.name == name && home.is_some_and(|home| home.name.name == package)
    };
    let found = contract.worlds.iter().find(|(_, of)| is_it(of));
    let text = found.and_then(|(id, _)| declarations::of_world(&contract, id));
    let text = text.ok_or_else(|| tool::failed(format!("the embedded contract has no world {name}")))?;
    files.insert("types/contract.d.ts".to_owned(), text.into_bytes());
    Ok(())
}

/// Whether a world is of the package of messages that come in.
fn is_inbound(world: AuthorWorld) -> bool {
    matches!(world, AuthorWorld::Handler | AuthorWorld::Source)
}

/// A project's dependency on the author's crate: a copy inside it, or a folder outside.
fn add_sdk(files: &mut Files, outside: Option<&Path>) -> Result<(), CliError> {
    const VENDORED: &str = "vendor/waybill-plugin";
    if let Some(outside) = outside {
        if let Some(manifest) = files.get_mut("Cargo.toml") {
            *manifest = text(manifest).replace(VENDORED, &outside.display().to_string()).into_bytes();
        }
    } else {
        for (path, bytes) in below("sdk/").filter(|(path, _)| *path != "Cargo.toml") {
            files.insert(format!("{VENDORED}/{path}"), bytes.to_vec());
        }
        files.insert(
            format!("{VENDORED}/Cargo.toml"),
            sdk::standalone(&one("plugins/Cargo.toml"), &one("sdk/Cargo.toml"))?,
        );
    }
    // The versions that this binary's own plugins were built with; cargo drops what the project doesn't use.
    files.insert("Cargo.lock".to_owned(), one("plugins/Cargo.lock").into_bytes());
    Ok(())
}

/// The contract's files by their path below `wit/`, the frozen copies among them.
pub(in crate::author) fn contract() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    below("wit/")
}

/// Embedded files below a prefix, by the rest of their path.
fn below(prefix: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    EMBEDDED.iter().filter_map(move |(path, bytes)| Some((path.strip_prefix(prefix)?, *bytes)))
}

fn one(path: &str) -> String {
    EMBEDDED.iter().find(|(name, _)| *name == path).map(|(_, bytes)| text(bytes)).unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A template with its placeholders filled in. The templates are written as a plugin named `my-plugin`.
fn filled(template: &str, name: &str, about: &str, world: AuthorWorld, language: Language) -> String {
    let world_line = format!("world = \"{}\"", world_name(world, language));
    template
        .replace("THE_ABOUT", &one(&format!("templates/about/{about}.md")))
        .replace("THE_USE\n", &one(&format!("templates/about/{about}.use.md")))
        .replace("THE_WORLD", &world_name(world, language))
        .replace(&format!("world = \"{}\"", world.as_str()), &world_line)
        .replace("MY_PLUGIN", &name.replace('-', "_").to_ascii_uppercase())
        .replace("my_plugin", &name.replace('-', "_"))
        .replace("my-plugin", name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    const LANGUAGES: [Language; 3] = [Language::Rust, Language::Js, Language::Python];

    /// Every world and language with a template.
    fn all() -> impl Iterator<Item = (AuthorWorld, Language)> {
        [
            AuthorWorld::Transport,
            AuthorWorld::Participant,
            AuthorWorld::Handler,
            AuthorWorld::Source,
            AuthorWorld::Backoff,
        ]
        .into_iter()
        .flat_map(|world| LANGUAGES.map(|language| (world, language)))
        .filter(|pair| *pair != (AuthorWorld::Backoff, Language::Python))
    }

    #[test]
    fn every_world_and_language_has_a_whole_project() {
        for (world, language) in all() {
            let files = files("wire-tap", (world, language, Template::Plain), None).unwrap();
            for path in ["README.md", ".gitignore", "waybill-plugin.toml", "wit/worlds.wit"] {
                assert!(files.contains_key(path), "{world:?} {language:?}: {path}");
            }
            let source = match language {
                Language::Rust => "src/lib.rs",
                Language::Js => "src/plugin.js",
                Language::Python => "src/plugin.py",
            };
            assert!(files.contains_key(source), "{world:?} {language:?}");
            assert!(files.keys().any(|path| path.starts_with("tests/") && path.ends_with(".toml")), "{world:?}");
        }
    }

    #[test]
    fn no_placeholder_is_left() {
        for (world, language) in all() {
            for (path, bytes) in files("wire-tap", (world, language, Template::Plain), None).unwrap() {
                let text = text(&bytes);
                for placeholder in ["my-plugin", "my_plugin", "MY_PLUGIN", "THE_ABOUT", "THE_USE", "THE_WORLD"] {
                    assert!(!text.contains(placeholder), "{world:?} {language:?} {path}: {placeholder}");
                }
            }
        }
    }

    #[test]
    fn the_readme_says_how_a_host_uses_it() {
        for (world, language) in all() {
            let readme = text(&files("wire-tap", (world, language, Template::Plain), None).unwrap()["README.md"]);
            let section = match world {
                AuthorWorld::Transport => "[transport.wire-tap]",
                AuthorWorld::Participant => "[participant.wire-tap]",
                AuthorWorld::Handler => "[consumer.wire-tap]",
                AuthorWorld::Source => "[source.wire-tap]",
                AuthorWorld::Backoff => "[outbox.backoff]",
            };
            assert!(readme.contains(section) && readme.contains("./wire-tap.wasm"), "{world:?} {language:?}: {readme}");
        }
    }

    #[test]
    fn the_manifest_is_one_that_the_host_takes() {
        for (world, language) in all() {
            let files = files("wire-tap", (world, language, Template::Plain), None).unwrap();
            let manifest = waybill_sandbox::Manifest::parse(&files["waybill-plugin.toml"]).unwrap();
            assert_eq!((manifest.name.as_str(), manifest.world.as_str()), ("wire-tap", world.as_str()));
            let version = match world {
                AuthorWorld::Handler | AuthorWorld::Source => waybill_sandbox::INBOUND_CONTRACT_VERSION,
                _ => waybill_sandbox::CONTRACT_VERSION,
            };
            assert_eq!(manifest.contract, version);
        }
    }

    #[test]
    fn javascript_has_a_console_wherever_there_is_a_log() {
        for (world, language) in all().filter(|(_, language)| *language == Language::Js) {
            let files = files("wire-tap", (world, language, Template::Plain), None).unwrap();
            let imports = text(&files["src/plugin.js"]).contains("import \"./console.js\";");
            let has_log = world != AuthorWorld::Backoff;
            assert_eq!((imports, files.contains_key("src/console.js")), (has_log, has_log), "{world:?}");
        }
    }

    #[test]
    fn javascript_knows_what_its_world_exports_and_imports() {
        for (world, language) in all().filter(|(_, language)| *language == Language::Js) {
            let files = files("wire-tap", (world, language, Template::Plain), None).unwrap();
            let (source, types) = (text(&files["src/plugin.js"]), text(&files["types/contract.d.ts"]));
            let (_, rest) = source.split_once("/** @type {import(\"").unwrap();
            let (module, rest) = rest.split_once("\").").unwrap();
            let (_, declared) = types.split_once(&format!("declare module \"{module}\" {{")).unwrap();
            let interface = rest.split('}').next().unwrap();
            assert!(declared.contains(&format!("  export interface {interface} {{\n")), "{world:?}: {interface}");
            let imported = source.lines().filter_map(|line| line.split_once(" from \"waybill:")?.1.split('"').next());
            for module in imported {
                assert!(types.contains(&format!("declare module \"waybill:{module}\" {{")), "{world:?}: {module}");
            }
            let mut code = types.lines().filter(|line| !line.trim_start().starts_with(['*', '/']));
            let is_unknown = |line: &str| line.contains(": unknown") || line.contains("= unknown");
            assert!(!code.any(is_unknown), "all of it can be declared: {types}");
        }
    }

    #[test]
    fn the_template_net_is_the_example_under_the_plugins_own_name() {
        let files = files("wire-tap", (AuthorWorld::Transport, Language::Rust, Template::Net), None).unwrap();
        let manifest = waybill_sandbox::Manifest::parse(&files["waybill-plugin.toml"]).unwrap();
        assert_eq!((manifest.name.as_str(), manifest.ask.http.len()), ("wire-tap", 0));
        let (source, tests) = (text(&files["src/lib.rs"]), text(&files["tests/refusals.toml"]));
        assert!(source.contains("\"WIRE_TAP.CONNECT\"") && tests.contains("\"WIRE_TAP.BUSY\""), "{source}{tests}");
        assert!(!files.contains_key("tests/failures.toml"), "nothing of the one over HTTP is left");
        let own = files.iter().filter(|(path, _)| !path.starts_with("vendor/") && !path.starts_with("wit/"));
        for (path, bytes) in own {
            let text = text(bytes);
            assert!(!text.contains("LEDGER.") && !text.contains("my-plugin") && !text.contains("THE_"), "{path}");
        }
    }

    #[test]
    fn an_sdk_outside_is_not_copied() {
        let files =
            files("x", (AuthorWorld::Transport, Language::Rust, Template::Plain), Some(Path::new("/opt/sdk"))).unwrap();
        assert!(!files.keys().any(|path| path.starts_with("vendor/")));
        assert!(text(&files["Cargo.toml"]).contains("path = \"/opt/sdk\""));
    }
}
