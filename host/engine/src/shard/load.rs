//! Reading segments into memory, a page at a time, beside everything else.

use std::sync::Arc;

use tokio::time::Instant;
use waybill_core::outbox::owner::LoadRequest;
use waybill_core::port::store::{SegmentInfo, StoreError, StoredSegment};

use super::actor::{Actor, READ_PAUSE};

pub(super) enum Page {
    Directory(Result<Vec<SegmentInfo>, StoreError>),
    Segments(Result<Vec<StoredSegment>, StoreError>),
}

impl Actor {
    pub(super) fn try_load(&mut self) {
        if !self.load.is_idle() || self.load_again_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        let Some(request) = self.owner.next_load() else { return };
        let store = Arc::clone(&self.context.stores.owner);
        let shard = self.owner.shard();
        self.load.begin(async move {
            let page = match &request {
                LoadRequest::Directory { from, limit } => Page::Directory(store.directory(shard, *from, *limit).await),
                LoadRequest::Segments { firsts, .. } => Page::Segments(store.segments(shard, firsts).await),
            };
            (request, page)
        });
    }

    pub(super) fn take_page(&mut self, request: &LoadRequest, page: Page) {
        let now = self.now();
        match (request, page) {
            (LoadRequest::Directory { from, limit }, Page::Directory(Ok(page))) => {
                self.owner.directory_page(page, *from, *limit)
            }
            (_, Page::Segments(Ok(page))) => self.owner.segments_page(request, page, now),
            (_, Page::Directory(Err(error)) | Page::Segments(Err(error))) => {
                tracing::warn!(code = error.code().as_str(), %error, "can't read segments");
                self.owner.load_failed();
                self.load_again_at = Some(Instant::now() + READ_PAUSE);
                if matches!(error, StoreError::NewerData(_)) {
                    self.give_back(error);
                }
            }
            (LoadRequest::Segments { .. }, Page::Directory(Ok(_))) => self.owner.load_failed(),
        }
    }
}
