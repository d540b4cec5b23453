//! The standard plugins, built from `plugins/` by this crate's build script and embedded, so that one binary holds them.
//!
//! What this doesn't do: compile, verify or run them; a bundled component is only bytes, and the sandbox treats it like any
//! other. Its manifest is inside it.

/// A plugin embedded in this binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundled {
    /// Its name: what `plugin = "..."` in `waybill.toml` says, and what its manifest says.
    pub name: &'static str,
    pub component: &'static [u8],
}

static ALL: &[Bundled] = include!(concat!(env!("OUT_DIR"), "/bundled.rs"));

/// All of them, by name.
pub fn all() -> &'static [Bundled] {
    ALL
}

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Bundled> {
    ALL.iter().find(|bundled| bundled.name == name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::path::Path;

    use super::*;
    use wasmparser::{Parser, Payload};

    /// Custom sections `waybill-plugin` of a component, at its top and in its core modules.
    fn manifests(component: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(component) {
            if let Payload::CustomSection(section) = payload.unwrap()
                && section.name() == "waybill-plugin"
            {
                found.push(String::from_utf8(section.data().to_vec()).unwrap());
            }
        }
        found
    }

    #[test]
    fn every_folder_with_a_manifest_is_here_in_order() {
        let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
        let folders = std::fs::read_dir(plugins).unwrap().map(|entry| entry.unwrap().path());
        let mut expected: Vec<String> = folders
            .filter(|folder| folder.join("waybill-plugin.toml").is_file())
            .map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        expected.sort();
        assert!(expected.iter().any(|name| name == "http"), "{expected:?}");
        assert_eq!(all().iter().map(|bundled| bundled.name).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_plugin_is_a_component_that_carries_its_own_manifest() {
        for bundled in all() {
            let manifests = manifests(bundled.component);
            let [manifest] = manifests.as_slice() else {
                panic!("{} holds {} manifests", bundled.name, manifests.len());
            };
            let manifest: toml::Table = manifest.parse().unwrap();
            assert_eq!(manifest.get("name").and_then(toml::Value::as_str), Some(bundled.name));
            assert!(Parser::is_component(bundled.component));
        }
    }

    #[test]
    fn no_path_of_the_building_machine_is_inside() {
        for bundled in all() {
            let home = env!("CARGO_MANIFEST_DIR").split("/host/").next().unwrap().as_bytes();
            assert!(!bundled.component.windows(home.len()).any(|bytes| bytes == home), "{}", bundled.name);
        }
    }

    #[test]
    fn a_plugin_is_found_by_its_whole_name_only() {
        assert_eq!(find("http").unwrap().name, "http");
        assert_eq!(find("htt"), None);
        assert_eq!(find(""), None);
    }
}
