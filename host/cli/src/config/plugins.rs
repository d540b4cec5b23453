//! Where a plugin comes from: bundled, a file, or a name in the plugins folder. Whether it can be used is found out by
//! loading it.

use std::path::Path;

use waybill_core::endpoint::PluginRef;
use waybill_core::suggest::nearest;

use super::kinds::{Set, beside};
use super::problem::Problem;
use super::reader::Section;

/// What a name without a path may stand for.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Plugins in this binary. Their names can't be taken by files.
    pub bundled: &'a [&'a str],
    /// `plugins.folder`: `acme` is `acme.wasm` in it.
    pub folder: Option<&'a Path>,
}

impl Known<'_> {
    /// Reads a plugin's name or path.
    pub fn source(&self, section: &mut Section<'_, '_>, written: &Set<String>) -> Option<PluginRef> {
        let text = written.value.as_str();
        let missing = |cause: String, fix: String| Problem::PluginMissing {
            endpoint: section.heading(),
            plugin: text.to_owned(),
            cause,
            fix,
        };
        let all = format!("use a bundled one ({}), or the path of a .wasm component", self.bundled.join(", "));
        let build = "build or copy it there, or correct the path (relative paths start at the configuration file)";
        let problem = if text.starts_with("oci://") {
            missing("is in a registry, which this version can't fetch from".into(), "fetch it and give its path".into())
        } else if text.ends_with(".wasm") || text.contains(['/', '\\']) {
            let path = match &written.origin {
                super::problem::Origin::File { path: file, .. } => beside(file, text),
                _ => text.into(),
            };
            match std::fs::metadata(&path) {
                Ok(meta) if meta.is_file() => return Some(PluginRef::File(path)),
                Ok(_) => missing(format!("isn't a file ({})", path.display()), all),
                Err(error) => missing(format!("can't be read at {}: {error}", path.display()), build.into()),
            }
        } else if self.bundled.contains(&text) {
            return Some(PluginRef::Bundled(text.to_owned()));
        } else if let Some(folder) = self.folder {
            let path = folder.join(format!("{text}.wasm"));
            match std::fs::metadata(&path) {
                Ok(meta) if meta.is_file() => return Some(PluginRef::File(path)),
                Ok(_) => missing(format!("isn't bundled, and {} isn't a file", path.display()), all),
                Err(error) => {
                    missing(format!("isn't bundled, and can't be read at {}: {error}", path.display()), build.into())
                }
            }
        } else {
            let names = self.bundled.iter().copied();
            let fix = nearest(text, names).map_or(all, |name| format!("did you mean {name:?}?"));
            missing("isn't bundled with this binary".into(), fix)
        };
        section.problem_at(problem, written.origin.clone());
        None
    }
}
