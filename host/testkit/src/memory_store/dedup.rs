//! Payload dedup.

use async_trait::async_trait;
use waybill_core::port::dedup::{DedupAsk, DedupEnd, DedupKey, DedupStore, FirstDelivery, Reservation};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use super::MemoryStore;

/// What is known of a payload.
#[derive(Clone, Debug)]
pub struct DedupEntry {
    id: String,
    since: UnixMillis,
    until: UnixMillis,
    first: Option<FirstDelivery>,
}

#[async_trait]
impl DedupStore for MemoryStore {
    async fn reserve(
        &self,
        asks: &[DedupAsk],
        now: UnixMillis,
        stale: UnixMillis,
    ) -> Result<Vec<Reservation>, StoreError> {
        self.check()?;
        Ok(self.write(|tables| {
            let mut answers = Vec::new();
            for ask in asks {
                let found = tables.dedup.get(&ask.key).filter(|entry| entry.until > now);
                answers.push(match found {
                    Some(DedupEntry { first: Some(first), .. }) => Reservation::Delivered(first.clone()),
                    Some(entry) if entry.id != ask.id.as_str() && entry.since >= stale => Reservation::Held,
                    _ => {
                        let (id, until) = (ask.id.to_string(), now.plus(ask.window));
                        tables.dedup.insert(ask.key.clone(), DedupEntry { id, since: now, until, first: None });
                        Reservation::Reserved
                    }
                });
            }
            answers
        }))
    }

    async fn conclude(&self, ends: &[DedupEnd], now: UnixMillis) -> Result<(), StoreError> {
        self.check()?;
        self.write(|tables| {
            for DedupEnd { ask, receipt } in ends {
                let found = tables.dedup.get(&ask.key).filter(|entry| entry.until > now);
                let is_decided = found.is_some_and(|entry| entry.first.is_some());
                let is_mine = found.is_some_and(|entry| entry.id == ask.id.as_str());
                match receipt {
                    Some(receipt) if !is_decided => {
                        let first = FirstDelivery { id: ask.id.to_string(), receipt: receipt.clone(), at: now };
                        let until = found.filter(|_| is_mine).map_or(now.plus(ask.window), |entry| entry.until);
                        let entry = DedupEntry { id: ask.id.to_string(), since: now, until, first: Some(first) };
                        tables.dedup.insert(ask.key.clone(), entry);
                    }
                    None if is_mine && !is_decided => {
                        tables.dedup.remove(&ask.key);
                    }
                    _ => {}
                }
            }
        });
        Ok(())
    }

    async fn delivered(&self, key: &DedupKey, now: UnixMillis) -> Result<Option<FirstDelivery>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.dedup.get(key).filter(|entry| entry.until > now)?.first.clone()))
    }

    async fn purge_dedup(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.check()?;
        Ok(self.write(|tables| {
            let over = tables.dedup.iter().filter(|(_, entry)| entry.until <= now).map(|(key, _)| key.clone());
            let over: Vec<DedupKey> = over.take(limit).collect();
            for key in &over {
                tables.dedup.remove(key);
            }
            over.len()
        }))
    }
}
