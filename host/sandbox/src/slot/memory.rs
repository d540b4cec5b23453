//! What a slot wants remembered beyond its own life.

use super::record::BadDigest;
use crate::load::LoadedPlugin;

/// Remembers digests over a restart. Calls come from the slot's tasks and must not block: an implementation that writes
/// files does so elsewhere. What it can't keep it tells the log.
pub trait SlotMemory: Send + Sync + 'static {
    /// Digests of a transport that were rolled back, oldest first.
    fn bad(&self, transport: &str) -> Vec<BadDigest>;
    /// A digest was rolled back.
    fn now_bad(&self, transport: &str, bad: &BadDigest);
    /// An operator wants a digest to be tried again.
    fn bad_no_more(&self, transport: &str, digest: &str);
    /// A component has proved itself: the one to go back to.
    fn good(&self, transport: &str, plugin: &LoadedPlugin);
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Forgetful;

impl SlotMemory for Forgetful {
    fn bad(&self, _: &str) -> Vec<BadDigest> {
        Vec::new()
    }
    fn now_bad(&self, _: &str, _: &BadDigest) {}
    fn bad_no_more(&self, _: &str, _: &str) {}
    fn good(&self, _: &str, _: &LoadedPlugin) {}
}
