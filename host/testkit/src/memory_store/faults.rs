//! Faults to inject: what a commit's caller hears, and what happens to the commit.

use std::collections::VecDeque;

use waybill_core::inbox::records::InboxCommit;
use waybill_core::port::store::{OwnerCommit, StoreError};
use waybill_core::saga::records::SagaCommit;
use waybill_core::streams::records::StreamCommit;

/// What happens to one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is applied and the caller hears the truth.
    Apply,
    /// Nothing is applied and the caller hears this error (`Conflict`, `DiskFull`, ...).
    Refuse(StoreError),
    /// It is applied if its guard holds, but the caller hears only that the connection broke.
    ApplyUnknown,
    /// The same, and no call gets through from then on, until [`super::MemoryStore::fail_all`] says otherwise.
    ApplyAndBreak,
    /// It never happens, and the caller hears only that the connection broke.
    Lose,
    /// The caller hears that the connection broke; the commit waits until [`super::MemoryStore::release`] and is applied then if
    /// its guard still holds.
    Hold,
}

/// The plan of faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) planned: VecDeque<Fate>,
    pub(super) held: VecDeque<OwnerCommit>,
    pub(super) saga_planned: VecDeque<Fate>,
    pub(super) saga_held: VecDeque<SagaCommit>,
    pub(super) inbox_planned: VecDeque<Fate>,
    pub(super) inbox_held: VecDeque<InboxCommit>,
    pub(super) streams_planned: VecDeque<Fate>,
    pub(super) streams_held: VecDeque<StreamCommit>,
    pub(super) all: Option<StoreError>,
    pub(super) audits: Option<StoreError>,
}
