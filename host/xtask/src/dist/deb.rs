//! The Debian package: binary, service, configuration, manual pages and completions.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{run as run_command, shown};

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
const EXECUTABLE: u32 = 0o755;
const PLAIN: u32 = 0o644;

/// Makes the package of a binary in a folder, and answers its file.
pub fn make(place: &Path, binary: &Path, glibc: &str) -> Result<PathBuf> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("Debian's name of the processor {other} isn't known here"),
    };
    let version = env!("CARGO_PKG_VERSION");
    let root = place.join("deb-root");
    if root.exists() {
        std::fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))?;
    }
    lay_out(&root, binary)?;
    let kib = size(&root)?.div_ceil(1024);
    let control = format!(
        "Package: waybill\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: Waybill <waybill@localhost>\n\
         Installed-Size: {kib}\nDepends: adduser, ca-certificates, libc6 (>= {glibc}), libgcc-s1\nSection: net\n\
         Priority: optional\nDescription: transactional outbox, sagas, inbox and event streams in one binary\n \
         Transports, sources and participants are sandboxed WebAssembly components that are\n \
         loaded, swapped and rolled back while the host runs.\n"
    );
    put(&root, "DEBIAN/control", control.as_bytes(), PLAIN)?;
    put(&root, "DEBIAN/conffiles", b"/etc/waybill/waybill.toml\n", PLAIN)?;
    for (name, script) in SCRIPTS {
        put(&root, &format!("DEBIAN/{name}"), script.as_bytes(), EXECUTABLE)?;
    }
    let package = place.join(format!("waybill_{version}_{architecture}.deb"));
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
        put(root, file, &output(binary, &["completions", shell])?, PLAIN)?;
    }
    let pages = folder(root, "usr/share/man/man1")?;
    run_command(Command::new(binary).arg("man").arg(&pages).stdout(Stdio::null()))?;
    for page in files(&pages)? {
        // As Debian's policy has it, without the time in it.
        run_command(Command::new("gzip").args(["-9", "-n"]).arg(page))?;
    }
    Ok(())
}

fn output(program: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("starting {}", shown(&command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(&command), output.status);
    }
    Ok(output.stdout)
}

fn folder(root: &Path, path: &str) -> Result<PathBuf> {
    let folder = root.join(path);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    // Whatever this machine's umask is, everybody may read what is installed.
    for part in folder.ancestors().take_while(|part| part.starts_with(root)) {
        std::fs::set_permissions(part, Permissions::from_mode(EXECUTABLE))?;
    }
    Ok(folder)
}

fn put(root: &Path, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let (parent, name) = path.rsplit_once('/').context("a path without a folder")?;
    let file = folder(root, parent)?.join(name);
    std::fs::write(&file, bytes).with_context(|| format!("writing {}", file.display()))?;
    std::fs::set_permissions(&file, Permissions::from_mode(mode)).with_context(|| format!("opening {}", file.display()))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Bytes of all files below.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in files(folder)? {
        let metadata = std::fs::metadata(&path).with_context(|| format!("looking at {}", path.display()))?;
        bytes += if metadata.is_dir() { size(&path)? } else { metadata.len() };
    }
    Ok(bytes)
}
