//! Backups of an embedded store (`docs/design/backup.md`).
//!
//! | file | holds |
//! |---|---|
//! | `snapshot` | the files of one instant, held by hard links |
//! | `archive` | the format of a backup |
//! | `restoring` | a data folder made of backups |
//!
//! A backup is taken at a reopening: nothing has the database open, and all that was committed is in tables. Callers wait while files are
//! linked; they are read afterwards.

mod archive;
mod restoring;
mod snapshot;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use waybill_core::port::backup::{BackupError, BackupPieces, BackupStore, HeldFile};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{AuditEvent, TransactStore};
use waybill_core::time::UnixMillis;
use waybill_surreal::WhileClosed;

use crate::config::Durability;
use crate::fault::store_error;
use crate::store::SurrealStore;
use archive::Writer;
use snapshot::Snapshot;

pub use archive::ArchiveError;
pub use restoring::{RestoreError, Restored, held_files, restore};
pub(crate) use restoring::{is_unfinished, restored_mark};
pub(crate) use snapshot::clear as clear_snapshots;

/// Bytes of a piece.
const PIECE_BYTES: usize = 256 * 1024;
/// Pieces that are made ahead of who takes them.
const PIECES_AHEAD: usize = 4;

#[async_trait]
impl BackupStore for SurrealStore {
    async fn back_up(&self, earlier: Vec<HeldFile>, by: &str) -> Result<Box<dyn BackupPieces>, BackupError> {
        let elsewhere = match self.durability() {
            Durability::Server => Some(
                "the data is on a SurrealDB server, which knows alone what is consistent there: back it up with `surreal export`, or as \
                 its storage is backed up",
            ),
            Durability::Memory => {
                Some("the data is in this process's memory and ends with it: there is nothing to put back")
            }
            Durability::EveryCommit | Durability::Interval(_) | Durability::OperatingSystem => None,
        };
        if let Some(cause) = elsewhere {
            return Err(BackupError::Elsewhere(cause));
        }
        let alone = Arc::clone(self.backing_up()).try_lock_owned().map_err(|_| BackupError::Busy)?;
        self.audit(&taken_by(by, earlier.len())).await?;
        let (taken, taking) = oneshot::channel();
        let work: WhileClosed = Box::new(move |data: &Path| -> io::Result<()> {
            // Whoever asked may have gone away: then it is dropped here.
            drop(taken.send(Snapshot::take(data, alone)?));
            Ok(())
        });
        self.engine.while_closed(work).await.map_err(store_error)?;
        let snapshot = taking.await.map_err(|_| StoreError::Other("the files of a backup are gone".to_owned()))?;
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        // A thread of its own until the backup is taken: one at a time.
        tokio::task::spawn_blocking(move || {
            let out = Out { sender, piece: Vec::with_capacity(PIECE_BYTES) };
            let failed = out.sender.clone();
            if let Err(error) = write(&snapshot, earlier, out) {
                // Nobody hears it who went away.
                drop(failed.blocking_send(Err(error.to_string())));
            }
        });
        Ok(Box::new(Pieces(pieces)))
    }
}

/// Whoever has a backup has everything: the trail says who took one, and so does the backup.
fn taken_by(by: &str, earlier: usize) -> AuditEvent {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    AuditEvent {
        at: UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
        kind: "BackupTaken".to_owned(),
        actor: by.to_owned(),
        tenant: None,
        object: "store".to_owned(),
        detail: serde_json::json!({ "earlier_files": earlier }),
    }
}

/// Writes the files of a snapshot, the manifest first.
fn write(snapshot: &Snapshot, earlier: Vec<HeldFile>, out: Out) -> io::Result<()> {
    let earlier: HashMap<String, HeldFile> = earlier.into_iter().map(|file| (file.name.clone(), file)).collect();
    let mut writer = Writer::new(out)?;
    for (name, bytes) in snapshot.files() {
        let Some(content) = snapshot.open(name, bytes)? else {
            writer.file(name, 0, io::empty())?;
            continue;
        };
        // A number may have been given to another file since, after a restore say: the content decides.
        match earlier.get(name).filter(|held| held.bytes == bytes) {
            Some(held) if sum_of(snapshot.open(name, bytes)?)? == held.sha256 => writer.earlier(held)?,
            _ => writer.file(name, bytes, content)?,
        }
    }
    writer.finish()
}

fn sum_of(content: Option<File>) -> io::Result<String> {
    let mut sum = Sha256::new();
    if let Some(mut content) = content {
        io::copy(&mut content, &mut sum)?;
    }
    Ok(archive::hex(&sum.finalize()))
}

/// Gathers what is written into pieces.
struct Out {
    sender: mpsc::Sender<Result<Bytes, String>>,
    piece: Vec<u8>,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES)));
        self.sender.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

struct Pieces(mpsc::Receiver<Result<Bytes, String>>);

#[async_trait]
impl BackupPieces for Pieces {
    async fn next(&mut self) -> Option<Result<Bytes, String>> {
        self.0.recv().await
    }
}
