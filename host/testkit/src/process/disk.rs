//! A disk that is really full: a small tmpfs, in a namespace of its own so that no rights are needed to mount it.

use std::fs::{File, remove_file};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// What it is filled with at once.
const PIECE: [u8; 4096] = [0; 4096];

/// A mounted disk that lives as long as the process that holds it.
pub struct Disk {
    holder: Child,
    mounted_at: PathBuf,
    bytes: usize,
}

impl Disk {
    /// Mounts one of so many bytes at a folder, which it makes.
    ///
    /// # Errors
    /// The system lets nobody mount one, or `unshare` of util-linux isn't there: whoever needs it fails.
    pub async fn mount(at: &Path, bytes: usize) -> io::Result<Self> {
        std::fs::create_dir(at)?;
        let script = format!("mount -t tmpfs -o size={bytes} none '{}' && echo mounted && exec cat", at.display());
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut line = String::new();
        if let Some(output) = holder.stdout.take() {
            BufReader::new(output).read_line(&mut line).await?;
        }
        if line != "mounted\n" {
            return Err(io::Error::other("no tmpfs could be mounted: this needs user namespaces, or root"));
        }
        Ok(Self { holder, mounted_at: at.to_owned(), bytes })
    }

    /// Program and words that begin a command which sees the disk.
    ///
    /// # Errors
    /// It is gone.
    pub fn enter(&self) -> io::Result<Vec<String>> {
        let target = self.holder()?.to_string();
        let words = ["nsenter", "--target", &target, "--user", "--mount", "--preserve-credentials", "--"];
        Ok(Vec::from(words.map(str::to_owned)))
    }

    /// Takes all the room that is left.
    ///
    /// # Errors
    /// It is larger than it was made, or can't be written for another reason than that it is full.
    pub fn fill(&self) -> io::Result<()> {
        let mut filler = File::options().create(true).append(true).open(self.filler()?)?;
        for _ in 0..=self.bytes / PIECE.len() {
            match filler.write_all(&PIECE) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the disk is larger than it was made"))
    }

    /// Gives back the room that [`Self::fill`] took.
    ///
    /// # Errors
    /// It isn't filled.
    pub fn make_room(&self) -> io::Result<()> {
        remove_file(self.filler()?)
    }

    /// The file that takes all the room, seen from here.
    fn filler(&self) -> io::Result<PathBuf> {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder()?));
        Ok(root.join(self.mounted_at.strip_prefix("/").map_err(io::Error::other)?).join("filler"))
    }

    fn holder(&self) -> io::Result<u32> {
        self.holder.id().ok_or_else(|| io::Error::other("nobody holds the disk any more"))
    }
}
