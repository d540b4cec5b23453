//! The disk of an embedded store, as alerts need it.

use std::io;

/// How full the disk is, and a reserve on it that is kept back for the alert of a full one. Calls may wait for the disk.
pub trait Disk: Send + Sync + 'static {
    /// Bytes that may still be written.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Takes the reserve, if it isn't taken.
    fn keep_reserve(&self) -> io::Result<()>;
    /// Gives the reserve back to the disk, if it is taken.
    fn give_reserve(&self) -> io::Result<()>;
}
