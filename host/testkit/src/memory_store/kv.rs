//! The small durable state of plugins.

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::port::kv::{KV_KEY_BYTES_MAX, KvEntry, KvError, KvExpectation, KvQuota, KvStore};
use waybill_core::port::store::StoreError;

use super::MemoryStore;

fn unavailable(error: StoreError) -> KvError {
    KvError::Unavailable(error.to_string())
}

fn holds(found: Option<u64>, expect: &KvExpectation) -> Result<(), KvError> {
    let ok = match expect {
        KvExpectation::Anything => true,
        KvExpectation::Absent => found.is_none(),
        KvExpectation::Revision(revision) => found.is_some_and(|found| found.to_string() == *revision),
    };
    ok.then_some(()).ok_or(KvError::Conflict)
}

#[async_trait]
impl KvStore for MemoryStore {
    async fn get(&self, scope: &str, key: &str) -> Result<Option<KvEntry>, KvError> {
        self.check().map_err(unavailable)?;
        Ok(self.read(|tables| {
            let found = tables.kv.get(&(scope.to_owned(), key.to_owned()));
            found.map(|(value, revision)| KvEntry { value: value.clone(), revision: revision.to_string() })
        }))
    }

    async fn put(
        &self,
        scope: &str,
        key: &str,
        value: Bytes,
        expect: KvExpectation,
        quota: KvQuota,
    ) -> Result<String, KvError> {
        self.check().map_err(unavailable)?;
        if key.len() > KV_KEY_BYTES_MAX {
            return Err(KvError::TooLarge { what: "the key's bytes", max: KV_KEY_BYTES_MAX });
        }
        if value.len() > quota.value_bytes_max {
            return Err(KvError::TooLarge { what: "the value's bytes", max: quota.value_bytes_max });
        }
        self.write(|tables| {
            let at = (scope.to_owned(), key.to_owned());
            holds(tables.kv.get(&at).map(|(_, revision)| *revision), &expect)?;
            let others = tables.kv.iter().filter(|((of, name), _)| of == scope && name != key);
            let (mut entries, mut bytes) = (1, key.len() + value.len());
            for ((_, name), (value, _)) in others {
                entries += 1;
                bytes += name.len() + value.len();
            }
            if entries > quota.entries_max {
                return Err(KvError::TooLarge { what: "the number of entries", max: quota.entries_max });
            }
            if bytes > quota.total_bytes_max {
                return Err(KvError::TooLarge { what: "the bytes of all entries", max: quota.total_bytes_max });
            }
            tables.kv_revision += 1;
            let revision = tables.kv_revision;
            tables.kv.insert(at, (value, revision));
            Ok(revision.to_string())
        })
    }

    async fn remove(&self, scope: &str, key: &str, expect: KvExpectation) -> Result<(), KvError> {
        self.check().map_err(unavailable)?;
        self.write(|tables| {
            let at = (scope.to_owned(), key.to_owned());
            holds(tables.kv.get(&at).map(|(_, revision)| *revision), &expect)?;
            tables.kv.remove(&at);
            Ok(())
        })
    }

    async fn keys(&self, scope: &str, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, KvError> {
        self.check().map_err(unavailable)?;
        Ok(self.read(|tables| {
            let names = tables.kv.keys().filter(|(of, name)| {
                of == scope && name.starts_with(prefix) && after.is_none_or(|after| name.as_str() > after)
            });
            names.map(|(_, name)| name.clone()).take(limit as usize).collect()
        }))
    }
}
