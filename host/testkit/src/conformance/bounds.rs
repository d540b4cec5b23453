//! The bound on a commit, for stores that have one: it isn't the same for all, so a test of each store calls this.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::Seq;
use waybill_core::port::store::{StoreError, Write};

use super::Store;
use super::samples::{Owner, SHARD, parked, segment, seq};

/// Of a store that takes no commit of so many bytes and takes one of half as many.
pub async fn a_commit_that_is_too_large_is_refused_and_leaves_nothing(store: &impl Store, bytes_max: usize) {
    let writes = |bytes: usize| {
        vec![
            Write::PutSegment(Arc::new(segment(seq(0, 0), 3))),
            Write::PutParked(Arc::new(parked(seq(1, 0), 0))),
            Write::PutBlob { blob: "large".into(), bytes: Bytes::from(vec![7; bytes]) },
            Write::PutParked(Arc::new(parked(seq(2, 0), 0))),
        ]
    };
    let mut owner = Owner::new();
    owner.commit(store, Vec::new()).await;
    for _ in 0..2 {
        assert_eq!(owner.try_commit(store, writes(bytes_max)).await, Err(StoreError::TooLarge));
        assert_eq!(store.shard(SHARD).await.unwrap(), owner.record);
        assert!(store.directory(SHARD, Seq(0), 10).await.unwrap().is_empty());
        assert!(store.parked(SHARD, None, 10).await.unwrap().is_empty());
        assert_eq!(store.blob("large").await.unwrap(), None);
    }
    // The same token and beat still stand.
    owner.commit(store, writes(bytes_max / 2)).await;
    assert_eq!(store.parked(SHARD, None, 10).await.unwrap().len(), 2);
    assert_eq!(store.blob("large").await.unwrap().map(|blob| blob.len()), Some(bytes_max / 2));
}
