//! An image in the layout of the Open Container Initiative (image-spec 1.1): blobs by their digests, and the documents that lead to
//! them. Made with the programs that every Linux has, and the same bytes from the same root on every machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::tree::{PLAIN, empty, put, set_mode};
use super::{VERSION, sha256};
use crate::cargo::run as run_command;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Where blobs lie, each by its digest.
const BLOBS: &str = "blobs/sha256";
/// What doesn't depend on who packs, when, and in which order the disk lists files.
const REPRODUCIBLE: [&str; 4] = ["--format=gnu", "--sort=name", "--numeric-owner", "--mtime=@0"];
/// The time of everything in an image.
pub const CREATED: &str = "1970-01-01T00:00:00Z";

/// A part of an image's file system that isn't root's.
pub struct Owned {
    /// Its folder, which is empty.
    pub path: &'static str,
    /// Number of its user and group.
    pub id: u32,
}

/// An image before it has a name.
pub struct Layout {
    folder: PathBuf,
    layer: Value,
    /// Digest of the layer before it was compressed.
    diff_id: String,
}

impl Layout {
    /// Packs a root into its only layer. The root goes.
    pub fn of_root(place: &Path, root: &Path, owned: &Owned) -> Result<Self> {
        let folder = empty(place, "oci-layout")?;
        let tar = folder.join("layer.tar");
        let mut pack = packer(&tar, "--create");
        pack.args(["--owner=0", "--group=0", "--anchored"]).arg(format!("--exclude={}", owned.path));
        run_command(pack.arg("--directory").arg(root).args(names(root)?)).context("a layer is packed by GNU tar")?;
        let mut append = packer(&tar, "--append");
        append.arg(format!("--owner={0}", owned.id)).arg(format!("--group={0}", owned.id));
        run_command(append.arg("--directory").arg(root).args(["--no-recursion", owned.path]))?;
        std::fs::remove_dir_all(root).with_context(|| format!("removing {}", root.display()))?;
        let diff_id = format!("sha256:{}", sha256(&tar)?);
        run_command(Command::new("gzip").arg("-n").arg(&tar))?;
        let layer = take(&folder, &folder.join("layer.tar.gz"), LAYER)?;
        Ok(Self { folder, layer, diff_id })
    }

    /// Gives it its configuration and its name, and packs all of it into one file.
    pub fn finish(self, architecture: &str, config: &Value, annotations: &Value, image: &Path) -> Result<()> {
        let config = json!({
            "created": CREATED,
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": { "type": "layers", "diff_ids": [self.diff_id] },
            "history": [{ "created": CREATED, "created_by": "cargo xtask dist" }],
        });
        let config = self.document(&config, CONFIG)?;
        let mut manifest = self.document(
            &json!({
                "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [self.layer], "annotations": annotations,
            }),
            MANIFEST,
        )?;
        if let Some(members) = manifest.as_object_mut() {
            members.insert("platform".into(), json!({ "architecture": architecture, "os": "linux" }));
            // The second is the name that containerd, and Docker with it, gives the image.
            let names = json!({
                "org.opencontainers.image.ref.name": VERSION,
                "io.containerd.image.name": format!("docker.io/library/waybill:{VERSION}"),
            });
            members.insert("annotations".into(), names);
        }
        self.put("index.json", &json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest] }))?;
        self.put("oci-layout", &json!({ "imageLayoutVersion": "1.0.0" }))?;
        // Docker's own stores before containerd's read this, and nothing of the above.
        let tagged = format!("waybill:{VERSION}");
        self.put(
            "manifest.json",
            &json!([{ "Config": path(&config), "RepoTags": [tagged], "Layers": [path(&self.layer)] }]),
        )?;
        let mut pack = packer(image, "--create");
        run_command(
            pack.args(["--owner=0", "--group=0"]).arg("--directory").arg(&self.folder).args(names(&self.folder)?),
        )?;
        std::fs::remove_dir_all(&self.folder).with_context(|| format!("removing {}", self.folder.display()))
    }

    fn put(&self, name: &str, document: &Value) -> Result<()> {
        put(&self.folder, &format!("./{name}"), &serde_json::to_vec(document)?, PLAIN)
    }

    /// A blob of JSON; answers its descriptor.
    fn document(&self, document: &Value, media_type: &str) -> Result<Value> {
        self.put("document.json", document)?;
        take(&self.folder, &self.folder.join("document.json"), media_type)
    }
}

/// Moves a file among the blobs; answers its descriptor.
fn take(folder: &Path, file: &Path, media_type: &str) -> Result<Value> {
    let digest = sha256(file)?;
    let blobs = super::tree::folder(folder, BLOBS)?;
    set_mode(file, PLAIN)?;
    let size = std::fs::metadata(file).with_context(|| format!("looking at {}", file.display()))?.len();
    std::fs::rename(file, blobs.join(&digest)).with_context(|| format!("moving {}", file.display()))?;
    Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size }))
}

/// Where the blob of a descriptor lies.
fn path(descriptor: &Value) -> String {
    let digest = descriptor.get("digest").and_then(Value::as_str).unwrap_or_default();
    format!("blobs/{}", digest.replacen(':', "/", 1))
}

fn packer(tar: &Path, act: &str) -> Command {
    let mut command = Command::new("tar");
    command.args(REPRODUCIBLE).arg(act).arg("--file").arg(tar);
    command
}

/// What is directly in a folder, by name and in order.
fn names(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let files = super::tree::files(folder)?;
    Ok(files.iter().filter_map(|file| file.file_name()).map(ToOwned::to_owned).collect())
}
