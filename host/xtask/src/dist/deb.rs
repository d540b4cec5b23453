//! The Debian package: binary, service, configuration, manual pages and completions.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::tree::{EXECUTABLE, PLAIN, empty, files, folder, put, size};
use super::{VERSION, output};
use crate::cargo::run as run_command;

const SERVICE: &str = include_str!("../../packaging/waybill.service");
const CONFIGURATION: &str = include_str!("../../packaging/waybill.toml");
/// What the package manager runs, by name.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../../packaging/postinst")),
    ("prerm", include_str!("../../packaging/prerm")),
    ("postrm", include_str!("../../packaging/postrm")),
];
/// Where the shells look for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/waybill"),
    ("zsh", "usr/share/zsh/vendor-completions/_waybill"),
    ("fish", "usr/share/fish/vendor_completions.d/waybill.fish"),
];

/// Makes the package of a binary in a folder, and answers its file.
pub fn make(place: &Path, binary: &Path, architecture: &str, glibc: &str) -> Result<PathBuf> {
    let root = empty(place, "deb-root")?;
    lay_out(&root, binary)?;
    let kib = size(&root)?.div_ceil(1024);
    let control = format!(
        "Package: waybill\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: Waybill <waybill@localhost>\n\
         Installed-Size: {kib}\nDepends: adduser, ca-certificates, libc6 (>= {glibc}), libgcc-s1, procps\nSection: net\n\
         Priority: optional\nDescription: transactional outbox, sagas, inbox and event streams in one binary\n \
         Transports, sources and participants are sandboxed WebAssembly components that are\n \
         loaded, swapped and rolled back while the host runs.\n"
    );
    put(&root, "DEBIAN/control", control.as_bytes(), PLAIN)?;
    put(&root, "DEBIAN/conffiles", b"/etc/waybill/waybill.toml\n", PLAIN)?;
    for (name, script) in SCRIPTS {
        put(&root, &format!("DEBIAN/{name}"), script.as_bytes(), EXECUTABLE)?;
    }
    let package = place.join(format!("waybill_{VERSION}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    // Quicker than xz by a factor of ten; whatever has this glibc reads it.
    build.args(["--root-owner-group", "-Zzstd", "--build"]).args([&root, &package]).stdout(Stdio::null());
    run_command(&mut build).context("the package is made by Debian's dpkg-deb")?;
    std::fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))?;
    Ok(package)
}

/// What is installed, but for what the package manager itself reads.
fn lay_out(root: &Path, binary: &Path) -> Result<()> {
    put(root, "usr/bin/waybill", &std::fs::read(binary).context("reading the binary")?, EXECUTABLE)?;
    put(root, "lib/systemd/system/waybill.service", SERVICE.as_bytes(), PLAIN)?;
    put(root, "etc/waybill/waybill.toml", CONFIGURATION.as_bytes(), PLAIN)?;
    put(root, "usr/share/doc/waybill/copyright", include_bytes!("../../../../LICENSE"), PLAIN)?;
    for (shell, file) in COMPLETIONS {
        put(root, file, &output(Command::new(binary).args(["completions", shell]))?, PLAIN)?;
    }
    let pages = folder(root, "usr/share/man/man1")?;
    run_command(Command::new(binary).arg("man").arg(&pages).stdout(Stdio::null()))?;
    for page in files(&pages)? {
        // As Debian's policy has it, without the time in it.
        run_command(Command::new("gzip").args(["-9", "-n"]).arg(page))?;
    }
    Ok(())
}
