//! `cargo xtask plugins`: the guest workspace alone, with the size of each component.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::cargo::{Repository, run as run_command};
use crate::setup;

pub fn run() -> Result<ExitCode> {
    let repository = Repository::find()?;
    setup::guest_target()?;
    let target = repository.target.join("plugins");
    let mut command =
        repository.cargo(["build", "--release", "--locked", "--workspace", "--target", setup::GUEST_TARGET]);
    run_command(command.arg("--target-dir").arg(&target).current_dir(repository.root.join("plugins")))?;

    let folder = target.join(setup::GUEST_TARGET).join("release");
    let mut sizes = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
        let entry = entry.with_context(|| format!("listing {}", folder.display()))?;
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            sizes.push((entry.metadata().with_context(|| format!("looking at {}", path.display()))?.len(), path));
        }
    }
    if sizes.is_empty() {
        bail!("the build ended well and left no component in {}", folder.display());
    }
    sizes.sort();
    for (bytes, path) in sizes {
        println!("{:>9.1} KiB  {}", bytes as f64 / 1024.0, path.display());
    }
    Ok(ExitCode::SUCCESS)
}
