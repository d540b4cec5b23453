//! The port for schedules: their records, and the one commit that advances a schedule and puts what its runs make.
//!
//! What it doesn't do: decide what is due, or who makes runs; start sagas.

use async_trait::async_trait;

use crate::port::store::StoreError;
use crate::port::transact::DoorGroup;
use crate::schedule::{Schedule, ScheduleKey};

/// Schedules. Each call is one transaction, durable when it is answered.
#[async_trait]
pub trait ScheduleStore: Send + Sync + 'static {
    /// Adds a schedule; [`StoreError::Exists`] when there is one of its tenant and name.
    async fn add_schedule(&self, schedule: &Schedule) -> Result<(), StoreError>;
    /// Writes a record over the one with the revision before its own, and puts messages on their doorsteps, all or nothing.
    /// [`StoreError::Conflict`] when the one that is there has another revision, or none is there. A message whose id is taken in its
    /// tenant is left out: its run was made.
    async fn change_schedule(&self, next: &Schedule, messages: Vec<DoorGroup>) -> Result<(), StoreError>;
    /// Removes a schedule, whatever its revision; false = there is none.
    async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool, StoreError>;
    /// One of them; none also when its record can't be read.
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError>;
    /// All of them by tenant and name, without those that can't be read.
    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError>;
}
