//! nats-server in the version that is pinned here, beside the one that the system brings: made by Go of what its module proxy serves,
//! once, and kept in the folder of caches.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use tokio::process::Command;

use crate::maven::caches;
use crate::process::find_program;

const MODULE: &str = "github.com/nats-io/nats-server/v2";
/// Also in the name of its folder.
const VERSION: &str = "v2.15.2";
/// The Go that makes it. One of the machine that is older, or newer, fetches it.
const TOOLCHAIN: &str = "go1.26.8";
/// The first minor version of Go 1 that fetches and runs another one by itself.
const FETCHES_SINCE: u32 = 21;

/// Where it is; made at the first call. Processes that make it at once wait for each other.
///
/// # Errors
/// Go isn't installed, or its module proxy can't be reached; the text says what to do.
pub async fn pinned() -> io::Result<PathBuf> {
    let folder = caches().join(format!("nats-{VERSION}"));
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join(".lock"))?;
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await.map_err(io::Error::other)??;
    let program = folder.join("nats-server");
    if !program.is_file() {
        // What is there was made to its end.
        let making = tempfile::tempdir_in(&folder)?;
        let (go, toolchain) = go().await?;
        let mut install = Command::new(go);
        install.args(["install", &format!("{MODULE}@{VERSION}")]).env("GOTOOLCHAIN", toolchain);
        run(install.env("GOBIN", making.path())).await?;
        fs::rename(making.path().join("nats-server"), &program)?;
    }
    drop(lock);
    Ok(program)
}

/// A Go, and which one it is to run.
async fn go() -> io::Result<(PathBuf, &'static str)> {
    let go = find_program("go").ok_or_else(|| {
        io::Error::other("go is not installed: `apt-get install golang-go` (Debian, Ubuntu), or https://go.dev/dl")
    })?;
    let known = run(Command::new(&go).args(["env", "GOVERSION"])).await?;
    if minor(&known).is_some_and(|minor| minor >= FETCHES_SINCE) {
        return Ok((go, TOOLCHAIN));
    }
    Ok((fetched(&go).await?, "local"))
}

/// `19` of `go1.19.8`.
fn minor(version: &str) -> Option<u32> {
    version.trim().strip_prefix("go1.")?.split('.').next()?.parse().ok()
}

/// The toolchain, fetched as a module by a Go that knows nothing of toolchains.
async fn fetched(go: &Path) -> io::Result<PathBuf> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Module {
        dir: PathBuf,
    }
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let module = format!("golang.org/toolchain@v0.0.1-{TOOLCHAIN}.linux-{architecture}");
    // It may be changed there: modules have no files that are programs, and no `go.mod` of others in them.
    let mut download = Command::new(go);
    download.args(["mod", "download", "-modcacherw", "-json", &module]);
    let Module { dir } = serde_json::from_str(&run(&mut download).await?)?;
    let mut programs = files(&dir.join("bin"))?;
    for folder in files(&dir.join("pkg/tool"))? {
        programs.extend(files(&folder)?);
    }
    for program in programs {
        fs::set_permissions(program, Permissions::from_mode(0o755))?;
    }
    for folder in ["src", "src/cmd"] {
        let (packed, module) = (dir.join(folder).join("_go.mod"), dir.join(folder).join("go.mod"));
        if packed.is_file() {
            fs::rename(packed, module)?;
        }
    }
    Ok(dir.join("bin/go"))
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

async fn run(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(io::Error::other);
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("nats-server {VERSION} can't be made: it needs Go's module proxy once\n{words}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_go_is_read() {
        assert_eq!(minor("go1.19.8\n"), Some(19));
        assert_eq!(minor("go1.26.8"), Some(26));
        assert_eq!(minor("devel +4f5c6a"), None);
    }
}
