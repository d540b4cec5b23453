//! Tests in documentation, which only cargo can run.

use anyhow::{Result, bail};

use super::count::Counts;
use super::program::{TIME_MAX, follow};
use crate::cargo::Repository;

pub async fn run(repository: &Repository, counts: &mut Counts) -> Result<()> {
    let cargo = repository.cargo(["test", "--release", "--locked", "--workspace", "--doc", "--no-fail-fast"]);
    let ended = follow(cargo.into(), "cargo test --doc").await?;
    ended.output.show()?;
    counts.passed += ended.outcome.passed;
    counts.failed += ended.outcome.failed;
    match ended.status {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            counts.failed += usize::from(ended.outcome.failed == 0);
            bail!("`cargo test --doc` ended with {status}")
        }
        None => bail!("`cargo test --doc` still ran after {} minutes", TIME_MAX.as_secs() / 60),
    }
}
