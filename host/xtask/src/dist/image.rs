//! The container image: the binary, the libraries that it needs, certificates, a user, a configuration. No shell, no package manager,
//! nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::oci::{Layout, Owned};
use super::tree::{EXECUTABLE, PLAIN, empty, folder, put, set_mode};
use super::{VERSION, output};

const CONFIGURATION: &str = include_str!("../../packaging/container.toml");
/// Where the authorities to trust are in the image, and here by Debian's and by Red Hat's way.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
const CERTIFICATES_HERE: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];
/// Where the store and the cache are.
const DATA: &str = "var/lib/waybill";
/// Its user and group: a number that no system gives to anybody else, and by which Kubernetes sees that it isn't root.
const USER: u32 = 65_532;
/// Everybody may make files there, and nobody takes those of others.
const SHARED: u32 = 0o1777;
const PRIVATE: u32 = 0o700;
/// Terms of what is taken from this machine, where Debian keeps them.
const TERMS: [&str; 3] = ["ca-certificates", "libc6", "libgcc-s1"];
/// What Docker makes of a health check, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Makes the image of a binary in a folder, and answers its file.
pub fn make(place: &Path, binary: &Path, architecture: &str) -> Result<PathBuf> {
    let root = empty(place, "image-root")?;
    lay_out(&root, binary)?;
    let layout = Layout::of_root(place, &root, &Owned { path: DATA, id: USER })?;
    let image = place.join(format!("waybill-{VERSION}-{architecture}.oci.tar"));
    layout.finish(architecture, &config(), &labels(), &image)?;
    Ok(image)
}

fn lay_out(root: &Path, binary: &Path) -> Result<()> {
    put(root, "usr/bin/waybill", &std::fs::read(binary).context("reading the binary")?, EXECUTABLE)?;
    for library in libraries(binary)? {
        let bytes = std::fs::read(&library).with_context(|| format!("reading {library}"))?;
        put(root, library.trim_start_matches('/'), &bytes, EXECUTABLE)?;
    }
    let certificates = CERTIFICATES_HERE.iter().find_map(|place| std::fs::read(place).ok());
    let certificates =
        certificates.with_context(|| format!("{} is of the package ca-certificates", CERTIFICATES_HERE[0]))?;
    put(root, CERTIFICATES, &certificates, PLAIN)?;
    let people = format!("root:x:0:0:root:/:/sbin/nologin\nwaybill:x:{USER}:{USER}:waybill:/{DATA}:/sbin/nologin\n");
    put(root, "etc/passwd", people.as_bytes(), PLAIN)?;
    put(root, "etc/group", format!("root:x:0:\nwaybill:x:{USER}:\n").as_bytes(), PLAIN)?;
    // Without it some versions of glibc ask DNS before /etc/hosts.
    put(root, "etc/nsswitch.conf", b"hosts: files dns\n", PLAIN)?;
    put(root, "etc/waybill/waybill.toml", CONFIGURATION.as_bytes(), PLAIN)?;
    put(root, "usr/share/doc/waybill/copyright", include_bytes!("../../../../LICENSE"), PLAIN)?;
    for package in TERMS {
        if let Ok(terms) = std::fs::read(format!("/usr/share/doc/{package}/copyright")) {
            put(root, &format!("usr/share/doc/{package}/copyright"), &terms, PLAIN)?;
        }
    }
    set_mode(&folder(root, "tmp")?, SHARED)?;
    set_mode(&folder(root, DATA)?, PRIVATE)
}

/// The shared libraries that a binary needs, the loader among them, as it finds them on this machine.
fn libraries(binary: &Path) -> Result<Vec<String>> {
    read_libraries(&String::from_utf8_lossy(&output(Command::new("ldd").arg(binary))?))
}

fn read_libraries(listing: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for line in listing.lines() {
        let place = line.split_once("=> ").map_or(line, |(_, place)| place).trim();
        if place == "not found" {
            bail!("a library of the binary isn't there: {}", line.trim());
        }
        // What has no path is in the kernel.
        if place.starts_with('/') {
            found.push(place.split(" (").next().unwrap_or(place).to_owned());
        }
    }
    if found.is_empty() {
        bail!("ldd names no library of the binary:\n{listing}");
    }
    Ok(found)
}

/// How a container of it is run.
fn config() -> Value {
    json!({
        "User": format!("{USER}:{USER}"),
        "ExposedPorts": { "7070/tcp": {} },
        "Env": ["PATH=/usr/bin", format!("HOME=/{DATA}"), "WAYBILL_CONFIG=/etc/waybill/waybill.toml"],
        "Entrypoint": ["/usr/bin/waybill"],
        "Cmd": ["serve", "--config", "/etc/waybill/waybill.toml"],
        "Volumes": { format!("/{DATA}"): {} },
        "WorkingDir": format!("/{DATA}"),
        "Labels": labels(),
        "StopSignal": "SIGTERM",
        // Docker's own; others leave it out of account.
        "Healthcheck": {
            "Test": ["CMD", "/usr/bin/waybill", "health", "--timeout", "4s"],
            "Interval": 10 * SECOND,
            "Timeout": 5 * SECOND,
            "StartPeriod": 120 * SECOND,
            "Retries": 3,
        },
    })
}

fn labels() -> Value {
    json!({
        "org.opencontainers.image.title": "waybill",
        "org.opencontainers.image.description": "Transactional outbox, sagas, inbox and event streams in one binary",
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn libraries_are_taken_from_where_the_loader_finds_them() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f5f)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007f6d)\n";
        assert_eq!(
            read_libraries(listing).unwrap(),
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]
        );
        assert!(read_libraries("\tlibm.so.6 => not found\n").unwrap_err().to_string().contains("libm"));
        assert!(read_libraries("\tstatically linked\n").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_same_root_is_the_same_image_to_the_byte() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let place = folder(place.path(), name).unwrap();
            let image = make(&place, Path::new("/bin/true"), "amd64").unwrap();
            assert_eq!(
                super::super::tree::files(&place).unwrap().as_slice(),
                std::slice::from_ref(&image),
                "nothing else stays"
            );
            super::super::sha256(&image).unwrap()
        };
        assert_eq!(make("first"), make("second"));
    }
}
