//! The container image that `cargo xtask dist` makes: every digest on the way to its root, what is in the root, and a host that runs in
//! it as its user, without a container engine.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use waybill_testkit::process::{Host, Launch, find_program};

use super::package::{file, run, text};

/// Its user and group, as `chroot` takes them.
const USER: &str = "65532:65532";
const DATA: &str = "var/lib/waybill";
/// Far longer than a host without work needs to drain.
const PATIENCE: Duration = Duration::from_secs(120);

/// What [`super::package`] asks of the image in a folder.
pub async fn the_image_is_whole_and_its_host_is_well(folder: &Path) {
    let layout = folder.join("layout");
    std::fs::create_dir(&layout).unwrap();
    run(Command::new("tar").arg("-xf").arg(file(folder, ".oci.tar")).arg("-C").arg(&layout));
    let config = config(&layout);
    let root = unpack(&layout, folder);
    what_is_in_it_is_nobodys_to_change(&root);
    for needed in
        ["usr/bin/waybill", "etc/ssl/certs/ca-certificates.crt", "etc/waybill/waybill.toml", "etc/nsswitch.conf"]
    {
        assert!(root.join(needed).is_file(), "{needed} is missing");
    }
    let people = std::fs::read_to_string(root.join("etc/passwd")).unwrap();
    assert!(people.contains(&format!("waybill:x:{USER}:")), "{people}");
    assert_eq!(std::fs::read_dir(root.join(DATA)).unwrap().count(), 0);
    if rustix::process::geteuid().is_root() {
        its_host_is_well(&root, &config, folder).await;
    } else {
        println!("NOT RUN: the image's host, which takes root for chroot");
    }
}

fn document(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// The blob of a descriptor, whose size and digest are right.
fn blob(layout: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let file = layout.join("blobs/sha256").join(digest);
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(descriptor["size"], bytes.len());
    assert_eq!(hex(&bytes), digest);
    file
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn manifest(layout: &Path) -> Value {
    document(&blob(layout, &document(&layout.join("index.json"))["manifests"][0]))
}

/// How a container is run, by way of every document that leads there.
fn config(layout: &Path) -> Value {
    assert_eq!(document(&layout.join("oci-layout")), json!({ "imageLayoutVersion": "1.0.0" }));
    let manifest = manifest(layout);
    let config = document(&blob(layout, &manifest["config"]));
    let layer = blob(layout, &manifest["layers"][0]);
    assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", hex(&plain(&layer)))]));
    assert_eq!(std::fs::read_dir(layout.join("blobs/sha256")).unwrap().count(), 3, "no blob that nothing leads to");
    // What Docker's own store reads names the same.
    let docker = document(&layout.join("manifest.json"));
    let path = |descriptor: &Value| descriptor["digest"].as_str().unwrap().replacen("sha256:", "blobs/sha256/", 1);
    assert_eq!(docker[0]["Config"], path(&manifest["config"]));
    assert_eq!(docker[0]["Layers"], json!([path(&manifest["layers"][0])]));

    let container = config["config"].clone();
    assert_eq!(container["User"], USER);
    assert_eq!(container["Entrypoint"], json!(["/usr/bin/waybill"]));
    assert_eq!(container["Cmd"], json!(["serve", "--config", "/etc/waybill/waybill.toml"]));
    assert_eq!(container["Volumes"], json!({ format!("/{DATA}"): {} }));
    let asked = container["Healthcheck"]["Test"].as_array().unwrap();
    assert_eq!(asked[..3], ["CMD", "/usr/bin/waybill", "health"]);
    assert_eq!(container["Labels"]["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
    container
}

/// A layer without its compression.
fn plain(layer: &Path) -> Vec<u8> {
    run(Command::new("gzip").arg("-dc").arg(layer)).stdout
}

fn unpack(layout: &Path, folder: &Path) -> PathBuf {
    let root = folder.join("image-root");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
    let layer = blob(layout, &manifest(layout)["layers"][0]);
    // Whoever is root gets the owners, too.
    run(Command::new("tar").args(["-xpzf"]).arg(layer).args(["--numeric-owner", "-C"]).arg(&root));
    root
}

/// Nothing can be written by others, nothing runs as somebody else, and root has all but the data.
fn what_is_in_it_is_nobodys_to_change(root: &Path) {
    let (mut open, mut count) = (vec![root.to_owned()], 0);
    while let Some(path) = open.pop() {
        let (metadata, name) = (std::fs::symlink_metadata(&path).unwrap(), path.strip_prefix(root).unwrap());
        let mode = metadata.mode() & 0o7777;
        if name == Path::new("tmp") {
            assert_eq!(mode, 0o1777);
        } else {
            assert_eq!(mode & 0o6022, 0, "{} has the mode {mode:04o}", name.display());
        }
        let is_data = name == Path::new(DATA);
        assert!(!is_data || mode == 0o700, "{mode:04o}");
        if rustix::process::geteuid().is_root() {
            let owner = if is_data { 65_532 } else { 0 };
            assert_eq!((metadata.uid(), metadata.gid()), (owner, owner), "{}", name.display());
        }
        if metadata.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        count += 1;
    }
    assert!(count > 20, "{count}");
}

/// As a container engine would run it, but for the namespaces: in its root, as its user, with its environment.
async fn its_host_is_well(root: &Path, config: &Value, folder: &Path) {
    let chroot = find_program("chroot").unwrap();
    let environment: Vec<(&str, &str)> =
        config["Env"].as_array().unwrap().iter().map(|pair| pair.as_str().unwrap().split_once('=').unwrap()).collect();
    let within = |arguments: &[&str]| {
        let mut command = Command::new(&chroot);
        command.arg(format!("--userspec={USER}")).arg(root).arg("/usr/bin/waybill").args(arguments);
        command.env_clear().envs(environment.iter().copied());
        command
    };
    let version = text(&mut within(&["version"]));
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let health = config["Healthcheck"]["Test"].as_array().unwrap();
    let health: Vec<&str> = health.iter().skip(2).map(|word| word.as_str().unwrap()).collect();

    let program = folder.join("run");
    let words = environment.iter().map(|(name, value)| format!(" '{name}={value}'")).collect::<String>();
    let line = format!(
        "#!/bin/sh\nexec env -i{words} '{}' '--userspec={USER}' '{}' /usr/bin/waybill \"$@\"\n",
        chroot.display(),
        root.display()
    );
    super::script::write(&program, &line);
    let launch = Launch {
        binary: program,
        config: "/etc/waybill/waybill.toml".into(),
        log: folder.join("waybill.log"),
        environment: Vec::new(),
    };
    let (host, api) = Host::ready(&launch).await.unwrap();
    let listen = api.base().strip_prefix("http://").unwrap();
    let asked = |ready: &[&str]| {
        within(&[health.as_slice(), ready].concat()).env("WAYBILL_SERVER_LISTEN", listen).output().unwrap()
    };
    let alive: &[&str] = &[];
    for (ready, path) in [(alive, "livez"), (&["--ready"], "readyz")] {
        let done = asked(ready);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!(done.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&done.stderr));
        assert!(said.lines().count() == 1 && said.contains(&format!("{}/{path}", api.base())), "{said}");
    }
    assert!(root.join(DATA).join("data").is_dir(), "the store is where the volume is");
    assert_eq!(std::fs::read_dir(root.join("tmp")).unwrap().count(), 0, "a read-only root does");
    let status = host.terminate(PATIENCE).await.unwrap();
    assert!(status.success(), "{status}");
    let gone = asked(alive);
    assert_eq!(gone.status.code(), Some(1), "{}", String::from_utf8_lossy(&gone.stderr));
    assert_eq!(String::from_utf8_lossy(&gone.stderr).lines().count(), 1);
}
