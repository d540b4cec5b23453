//! The read-ahead window: the directory of segments, which of them are in memory, and what to read next.
//!
//! A scan goes through a tenant's segments in order. What it can't take it remembers: a key past its bound, or behind a
//! held destination, gets a resume point, and later messages of it are skipped until it is read again from there. A
//! scan that can't remember, or has no room, stops where it is, also in the middle of a segment.
//!
//! | file | holds |
//! |---|---|
//! | `directory` | which segments are in the store, and what has left them |
//! | `tenant` | one tenant's part |
//! | `load` | what to read next |
//! | `skipped` | resume points of keys and of held destinations |
//! | `segments` | segments in memory |
//! | `check` | what all of this must agree on, for tests |

mod check;
mod directory;
mod load;
mod segments;
mod skipped;
mod tenant;

use std::collections::{BTreeMap, BTreeSet};

pub use load::{LoadPurpose, LoadRequest};
pub(super) use segments::DoneInfo;
use segments::LoadedSegment;
pub(super) use skipped::ScanStep;
use tenant::TenantWindow;

use crate::ids::{Seq, Tenant};
use crate::limits::{SchedulerLimits, TENANT_MESSAGES_MIN};

/// What is read of the stored segments, tenant by tenant, and how much room is left.
///
/// - `stored` names exactly the segments of all directories, and `busy_tenants` counts the directories that aren't empty.
/// - `messages` is what the tenants count together: their messages in memory that lie in segments. The segment of each is in
///   memory, and `bytes` is the weight of the segments in memory.
/// - A tenant with something to read is in `wanted`. One read is under way at most.
/// - A skipped key that could be read again is on its tenant's list of ready ones.
#[derive(Debug, Default)]
pub(super) struct Window {
    limits: SchedulerLimits,
    tenants: BTreeMap<Tenant, TenantWindow>,
    /// Segments in all directories.
    stored: BTreeSet<Seq>,
    /// Tenants with segments in the store.
    busy_tenants: usize,
    /// Tenants for which something may be worth reading, and whose turn it was last.
    wanted: BTreeSet<Tenant>,
    turn: Option<Tenant>,
    /// Everything below this seq is in the directory.
    directory_until: Seq,
    directory_done: bool,
    is_reading: bool,
    /// The read that is under way was asked for before the scan was set back: its page isn't taken.
    page_is_stale: bool,
    segments: BTreeMap<Seq, LoadedSegment>,
    messages: usize,
    bytes: usize,
    /// Segments that can't be decoded, to be moved to quarantine, each with the reason.
    unreadable: Vec<(Seq, String)>,
}

impl Window {
    /// Nothing is known yet of what lies from `floor` on.
    pub fn new(limits: SchedulerLimits, floor: Seq) -> Self {
        Self { limits, directory_until: floor, ..Self::default() }
    }

    /// Messages in memory that lie in segments.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// What the segments in memory weigh.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tenants with segments in the store.
    pub fn busy_tenants(&self) -> usize {
        self.busy_tenants
    }

    /// Messages that a tenant may hold of a window shared by those that have any.
    fn share(&self) -> usize {
        let limits = &self.limits;
        (limits.window_messages / self.busy_tenants.max(1)).max(TENANT_MESSAGES_MIN.min(limits.window_messages))
    }

    fn messages_of(&self, tenant: &Tenant) -> usize {
        self.tenants.get(tenant).map_or(0, |window| window.messages)
    }

    /// How many more messages a tenant may hold. The window is shared by those that have any.
    pub fn room(&self, tenant: &Tenant) -> usize {
        let limits = &self.limits;
        let mine = self.messages_of(tenant);
        let least = TENANT_MESSAGES_MIN.min(limits.window_messages);
        let shared = if self.bytes < limits.window_bytes {
            self.share().saturating_sub(mine).min(limits.window_messages.saturating_sub(self.messages))
        } else {
            0
        };
        shared.max(least.saturating_sub(mine))
    }

    /// Messages of a tenant may be in memory that can't be sent for now and would make room for others.
    pub fn may_free(&mut self, tenant: &Tenant) {
        if let Some(window) = self.tenants.get_mut(tenant) {
            window.may_free = true;
        }
    }

    /// Whether such messages are to be looked for now; not again until [`Window::may_free`] says so.
    pub fn frees(&mut self, tenant: &Tenant) -> bool {
        self.tenants.get_mut(tenant).is_some_and(|window| std::mem::take(&mut window.may_free))
    }

    /// Forgets a tenant of which nothing is left.
    fn forget_if_empty(&mut self, tenant: &Tenant) {
        if self.tenants.get(tenant).is_some_and(TenantWindow::is_empty) {
            self.tenants.remove(tenant);
            self.wanted.remove(tenant);
        }
    }
}
