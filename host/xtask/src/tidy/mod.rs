//! Rules about the sources that no compiler checks. A test runs them, so a breach fails the suite and not a review.

mod contract;
mod direction;
mod programs;
mod texts;
mod words;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::cargo::Repository;

/// Folders that hold nothing of ours: what is built or fetched.
const SKIPPED: [&str; 2] = ["target", "node_modules"];

/// Runs all rules and lists every breach.
pub fn run() -> Result<ExitCode> {
    check(&Repository::find()?)?;
    println!("tidy");
    Ok(ExitCode::SUCCESS)
}

/// Runs all rules; the error lists every breach.
pub fn check(repository: &Repository) -> Result<()> {
    let mut breaches = direction::check(&repository.packages);
    breaches.extend(programs::check(&repository.packages));
    breaches.extend(texts::check(&repository.root)?);
    breaches.extend(contract::check(&repository.root)?);
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("{} breaches of the rules in host/xtask/src/tidy:\n  {}", breaches.len(), breaches.join("\n  "))
}

/// Visits every file below a folder, in order, but for what is built or fetched.
pub fn files(folder: &Path, visit: &mut impl FnMut(&Path) -> Result<()>) -> Result<()> {
    let listing = || format!("listing {}", folder.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(listing)? {
        let entry = entry.with_context(listing)?;
        entries.push((entry.path(), entry.file_type().with_context(listing)?));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (path, kind) in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Hidden folders belong to tools, but for our own.
        let hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
        if kind.is_dir() && !hidden && !SKIPPED.contains(&name.as_str()) {
            files(&path, visit)?;
        } else if kind.is_file() {
            visit(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_sources_are_tidy() {
        if let Err(breaches) = check(&Repository::find().unwrap()) {
            panic!("{breaches}");
        }
    }
}
