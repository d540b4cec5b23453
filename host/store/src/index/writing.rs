//! What a commit adds to indexes and removes from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use waybill_core::ids::{Place, Seq};
use waybill_core::message::Message;
use waybill_core::outbox::filter::ContentField;
use waybill_core::outbox::index::Index;
use waybill_core::outbox::records::{DoneEnd, HistoryChunk};
use waybill_core::port::store::{OwnerCommit, StoreError, Write};
use waybill_surreal::{Object, RecordIdKey, Transaction};

use super::rows::{self, Kept, ShardIndexes};
use super::{Begun, Indexes, keys};
use crate::fault::store_error;
use crate::owner::read;
use crate::tables::{INDEX, INDEX_SHARD, shard_key};

/// A change of one record: what it is from now on, or none.
pub type Change = (&'static str, RecordIdKey, Option<Object>);

/// What one commit does to indexes, as far as it is known before its transaction.
#[derive(Debug)]
pub struct Indexing {
    begun: Begun,
    /// Rows of messages by the segment they lie in: those of one that is older than the commit are there already.
    of_segments: Vec<(Seq, Vec<RecordIdKey>)>,
    /// Rows of dead letters, which may never have been in a segment.
    of_dead: Vec<RecordIdKey>,
    /// Dead letters whose payloads go, and with them what could be found.
    purged: Vec<Place>,
}

/// The fields that are indexed of a tenant's messages.
fn fields_of<'i>(set: &'i [Index], message: &Message) -> BTreeSet<&'i ContentField> {
    let of_tenant = set.iter().filter(|index| index.tenant.matches(message.tenant.as_str()));
    of_tenant.map(|index| &index.field).collect()
}

impl Indexing {
    /// None when indexes are nothing to a commit.
    pub fn begin(indexes: &Indexes, commit: &OwnerCommit) -> Option<Self> {
        let begun = indexes.begin(commit.shard, commit.record.token)?;
        let mut indexing = Self { begun, of_segments: Vec::new(), of_dead: Vec::new(), purged: Vec::new() };
        for write in &commit.writes {
            indexing.take(commit, write);
        }
        Some(indexing)
    }

    fn take(&mut self, commit: &OwnerCommit, write: &Write) {
        let set = Arc::clone(&self.begun.set);
        let rows = |message: &Message, place: Place| -> Vec<RecordIdKey> {
            keys(fields_of(&set, message), message, place).collect()
        };
        match write {
            Write::PutSegment(segment) => {
                let entries = segment.entries.iter();
                let of_all = entries.flat_map(|entry| rows(&entry.message, segment.place(commit.shard, entry)));
                self.of_segments.push((segment.first, of_all.collect()));
            }
            Write::PutDead(dead) => self.of_dead.extend(rows(&dead.message, dead.place)),
            Write::PutHistory(chunk) => {
                let mut of_all = Vec::new();
                for done in &chunk.entries {
                    let place = Place { shard: commit.shard, segment: chunk.segment, index: done.index };
                    match done.end {
                        DoneEnd::Purged => self.purged.push(place),
                        // One that was never in a segment gets its place only now.
                        _ => of_all.extend(rows(&done.message, place)),
                    }
                }
                self.of_segments.push((chunk.segment, of_all));
            }
            _ => {}
        }
    }

    /// What the commit changes, besides. `last` is the last seq given out before it. It only reads.
    pub async fn changes(
        &self,
        transaction: &dyn Transaction,
        commit: &OwnerCommit,
        last: Seq,
    ) -> Result<Vec<Change>, StoreError> {
        let mut changes = Vec::new();
        for place in &self.purged {
            match read::dead_letter(transaction, place.shard, place.seq()).await {
                Ok(dead) => {
                    let gone = dead.iter().flat_map(|dead| keys(self.begun.fields.iter(), &dead.message, dead.place));
                    changes.extend(gone.map(|key| (INDEX, key, None)));
                }
                // Its rows lead nowhere from now on.
                Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let new = self.of_segments.iter().filter(|(segment, _)| *segment > last).flat_map(|(_, rows)| rows);
        changes.extend(new.chain(&self.of_dead).map(|key| (INDEX, key.clone(), Some(Object::default()))));
        if self.begun.note {
            changes.push((INDEX_SHARD, shard_key(commit.shard), Some(self.note(transaction, commit, last).await?)));
        }
        Ok(changes)
    }

    /// What the shard's row has to say. What it says of the owner before goes on.
    async fn note(&self, transaction: &dyn Transaction, commit: &OwnerCommit, last: Seq) -> Result<Object, StoreError> {
        let key = shard_key(commit.shard);
        let stored = transaction.get(INDEX_SHARD, key.clone()).await.map_err(store_error)?;
        let before = match stored.map(|fields| rows::shard(&key, &fields)).transpose() {
            // It is written anew.
            Err(StoreError::Corrupt(_)) => None,
            read => read?.filter(|before| before.token == commit.expect_token),
        };
        let kept = self.begun.set.iter().map(|index| {
            let same = before.iter().flat_map(|before| &before.kept).find(|kept| kept.index == *index);
            Kept { index: index.clone(), since: same.map_or(last, |kept| kept.since) }
        });
        Ok(rows::of_shard(&ShardIndexes { token: commit.record.token, kept: kept.collect() }))
    }

    /// The commit went in.
    pub fn went_in(&self, indexes: &Indexes, commit: &OwnerCommit) {
        if self.begun.note {
            indexes.noted(commit.shard, commit.record.token, self.begun.generation);
        }
    }
}

/// The rows of finished messages in indexes of these fields.
pub fn rows_of_done<'c>(
    fields: &'c BTreeSet<ContentField>,
    chunk: &'c HistoryChunk,
) -> impl Iterator<Item = RecordIdKey> + 'c {
    chunk.entries.iter().flat_map(move |done| {
        keys(fields, &done.message, Place { shard: chunk.shard, segment: chunk.segment, index: done.index })
    })
}
