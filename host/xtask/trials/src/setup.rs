//! What a fresh machine lacks: the servers that tests and demos run against, and the tools that tests use.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use waybill_testkit::process::find_program;
use waybill_testkit::toolchains;
use xtask::cargo::Repository;

/// Installs all that the test programs need and this machine lacks.
pub async fn for_tests() -> Result<()> {
    // Real brokers, not stand-ins.
    for broker in &waybill_testkit::brokers::ALL {
        for (name, package) in broker.programs {
            program(name, package)?;
        }
        if let Some(jars) = broker.jars {
            jars.folder().await.with_context(|| format!("fetching {}", jars.name))?;
        }
    }
    // The same tests with a newer NATS than the system's. Where it can't be had, they say so and do without.
    let newer = async {
        program("go", "golang-go")?;
        Ok::<_, anyhow::Error>(waybill_testkit::nats::pinned().await?)
    };
    if let Err(error) = newer.await {
        eprintln!("NATS is tested in the system's version alone: {error:#}");
    }
    postgres()?;
    // Loads the alerts and asks the queries of examples/monitoring.
    program("prometheus", "prometheus")?;
    // The worker of examples/worker-python.
    program("python3", "python3")?;
    // Signs the checksums of what is given away, and verifies them.
    program("ssh-keygen", "openssh-client")?;
    if cfg!(target_os = "linux") {
        // Holds up the syncs of a host.
        program("strace", "strace")?;
        // Reads the service that the package brings.
        program("systemd-analyze", "systemd")?;
    }
    // Subscribes as pages do.
    if waybill_testkit::browser::find_browser().is_none() {
        program("chromium", "chromium")?;
    }
    // Makes components of JavaScript and Python.
    python_venv()?;
    let repository = Repository::find()?;
    let tools = toolchains::install(&repository.target)?;
    // Clients are generated with these.
    let clients = repository.root.join("tests/clients");
    let folder = |name: &str| repository.target.join("toolchains").join(name);
    toolchains::environment(&folder("openapi-python"), &clients.join("python/requirements.txt"), None)?;
    tools.locked_packages(&folder("openapi-typescript"), &clients.join("typescript/package.json"))?;
    tools.locked_packages(&folder("openapi-spectral"), &clients.join("spectral/package.json"))?;
    // The page is looked at with these.
    tools.locked_packages(&folder("openapi-page"), &clients.join("page/package.json"))?;
    Ok(())
}

/// Makes sure that a program is there: installed with apt where that is possible without asking, as root or with sudo, else an
/// error that says how.
pub fn program(name: &str, package: &str) -> Result<()> {
    if find_program(name).is_some() {
        return Ok(());
    }
    let by_hand = format!(
        "`{name}` is missing and needed here: install it, e.g. `apt-get install {package}` on Debian or Ubuntu"
    );
    if find_program("apt-get").is_none() || as_root(["true"]).is_err() {
        bail!("{by_hand}");
    }
    eprintln!("{name} is missing: installing the package {package}");
    install(package).with_context(|| by_hand.clone())?;
    if find_program(name).is_some() { Ok(()) } else { bail!("the package {package} brought no `{name}`. {by_hand}") }
}

/// Installs a package with apt, without starting what it brings.
fn install(package: &str) -> Result<()> {
    let _kept_down = KeptDown::new()?;
    for arguments in [&["update", "--quiet"][..], &["install", "--yes", "--quiet", "--no-install-recommends", package]]
    {
        // sudo hands on no environment.
        as_root(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"].iter().chain(arguments))?;
    }
    Ok(())
}

/// Makes sure that PostgreSQL is there, whose programs Debian keeps out of the search path.
pub fn postgres() -> Result<()> {
    let is_there = waybill_testkit::postgres::is_installed;
    if is_there() {
        return Ok(());
    }
    let by_hand =
        "PostgreSQL is missing and needed here: install it, e.g. `apt-get install postgresql` on Debian or Ubuntu";
    install("postgresql").context(by_hand)?;
    if is_there() { Ok(()) } else { bail!("the package postgresql brought no server. {by_hand}") }
}

/// Makes sure that Python can make environments of its own, which Debian has as a package apart.
pub fn python_venv() -> Result<()> {
    let can = || Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status();
    if can().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    install("python3-venv").context("`python3` can't make environments: install the package python3-venv")?;
    match can() {
        Ok(status) if status.success() => Ok(()),
        _ => bail!("the package python3-venv is installed, and `python3` still can't make environments"),
    }
}

/// Runs a program as root: as it is, or with sudo where that asks for no password.
fn as_root<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let mut words: Vec<OsString> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
    if !is_root {
        words.splice(..0, ["sudo".into(), "--non-interactive".into()]);
    }
    let line = words.join(OsStr::new(" ")).display().to_string();
    let mut words = words.into_iter();
    let status = Command::new(words.next().unwrap_or_default())
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("starting `{line}`"))?;
    if status.success() { Ok(()) } else { bail!("`{line}` ended with {status}") }
}

/// While it lives, packages start no services: tests start servers of their own, with folders and ports of their own.
struct KeptDown {
    policy: Option<&'static Path>,
}

impl KeptDown {
    /// Debian asks this program before it starts a service; 101 means no.
    const POLICY: &str = "/usr/sbin/policy-rc.d";

    fn new() -> Result<Self> {
        let path = Path::new(Self::POLICY);
        if path.exists() {
            return Ok(Self { policy: None });
        }
        let mut draft = tempfile::NamedTempFile::new().context("making a temporary file")?;
        draft.write_all(b"#!/bin/sh\nexit 101\n")?;
        as_root([OsStr::new("install"), OsStr::new("--mode=755"), draft.path().as_os_str(), path.as_os_str()])?;
        Ok(Self { policy: Some(path) })
    }
}

impl Drop for KeptDown {
    fn drop(&mut self) {
        if let Some(path) = self.policy {
            // What stays behind only keeps services down.
            let _ = as_root([OsStr::new("rm"), OsStr::new("--force"), path.as_os_str()]);
        }
    }
}
