//! What is read of the store besides commits: the seen set, and rows whose turn has come. One read of each at a time; what comes
//! meanwhile goes into the next.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use waybill_core::ids::Seq;
use waybill_core::inbox::owner::LookUp;
use waybill_core::inbox::records::InboxRow;
use waybill_core::port::inbox_store::SeenHit;
use waybill_core::port::store::StoreError;

use super::actor::Actor;
use crate::commit::UnderWay;

/// Pause after a read that failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

type SeenAnswer = (Vec<Seq>, Result<Vec<Option<SeenHit>>, StoreError>);
type RowAnswer = (Vec<Seq>, Result<Vec<Option<Arc<InboxRow>>>, StoreError>);

/// Reads under way.
#[derive(Default)]
pub(super) struct Reads {
    pub seen: UnderWay<SeenAnswer>,
    pub rows: UnderWay<RowAnswer>,
    rest_until: Option<Instant>,
}

impl Reads {
    /// Until when nothing is read, if that is yet to come.
    pub fn rests_until(&self) -> Option<Instant> {
        self.rest_until.filter(|until| *until > Instant::now())
    }
}

impl Actor {
    pub(super) fn start_reads(&mut self) {
        if self.reads.rests_until().is_some() {
            return;
        }
        let (store, shard) = (Arc::clone(&self.shared.store), self.owner.shard());
        if self.reads.seen.is_idle() {
            let (seqs, queries): (Vec<Seq>, Vec<_>) =
                self.owner.take_lookups().into_iter().map(|LookUp { seq, query }| (seq, query)).unzip();
            if !seqs.is_empty() {
                let shared = Arc::clone(&self.shared);
                self.reads.seen.begin(async move {
                    let found = shared.store.inbox_seen(shard, &queries).await;
                    shared.meter.looked_up(&queries, |consumer| shared.store.inbox_seen_reads(consumer));
                    (seqs, found)
                });
            }
        }
        if self.reads.rows.is_idle() {
            let seqs = self.owner.take_loads();
            if !seqs.is_empty() {
                self.reads.rows.begin(async move {
                    let rows = store.inbox_rows(shard, &seqs).await;
                    (seqs, rows)
                });
            }
        }
    }

    /// What lies in the window is seen; what is older isn't, though the store may still have it.
    pub(super) fn take_seen(&mut self, (seqs, found): SeenAnswer) {
        let now = self.shared.context.clock.now();
        match found {
            Ok(found) => {
                let start = self.owner.record().age.window_start(self.home.owner.dedup_window);
                for (seq, hit) in seqs.into_iter().zip(found) {
                    let hit = hit.filter(|hit| start.is_none_or(|start| hit.age > start));
                    self.owner.looked_up(seq, hit.map(|hit| hit.check), now);
                }
            }
            Err(error) => {
                self.read_failed("the seen set", &error);
                self.owner.ask_again(seqs);
            }
        }
    }

    pub(super) fn take_rows(&mut self, (seqs, rows): RowAnswer) {
        let now = self.shared.context.clock.now();
        match rows {
            Ok(rows) => {
                for (seq, row) in seqs.into_iter().zip(rows) {
                    self.owner.loaded(seq, Ok(row), now);
                }
            }
            Err(error) => {
                self.read_failed("stored messages", &error);
                for seq in seqs {
                    self.owner.loaded(seq, Err(()), now);
                }
            }
        }
    }

    fn read_failed(&mut self, what: &str, error: &StoreError) {
        tracing::warn!(shard = self.owner.shard().0, code = error.code().as_str(), %error, "can't read {what} yet");
        self.reads.rest_until = Some(Instant::now() + TROUBLE_PAUSE);
    }
}
