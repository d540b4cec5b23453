//! Reads that bring messages to an owner's memory, beside its commits.

use waybill_core::outbox::owner::{LoadPurpose, LoadRequest};
use waybill_core::port::store::{SegmentInfo, StoredSegment};

use super::driver::Driver;
use super::host::Host;
use super::store::ModelStore;
use super::world::World;

pub(super) enum Page {
    Directory(Vec<SegmentInfo>),
    Segments(Vec<StoredSegment>),
}

/// A read under way: what comes back, as the store was when it began.
pub(super) struct Load {
    pub request: LoadRequest,
    page: Page,
    arrives: u64,
}

impl<S: ModelStore> World<S> {
    pub(super) fn load_acts(&mut self, host: &Host, driver: &mut Driver) {
        let now = self.now_at(host);
        let shard = driver.owner.shard();
        if let Some(load) = driver.load.take() {
            if load.arrives > self.now {
                driver.load = Some(load);
                return;
            }
            let request = load.request;
            match load.page {
                Page::Directory(page) => {
                    if let LoadRequest::Directory { from, limit } = request {
                        driver.owner.directory_page(page, from, limit);
                    }
                }
                Page::Segments(page) => driver.owner.segments_page(&request, page, now),
            }
            return;
        }
        let Some(request) = driver.owner.next_load() else { return };
        if !self.calm && self.rng.one_in(40) || self.read_fails() {
            driver.owner.load_failed();
            return;
        }
        let page = match &request {
            LoadRequest::Directory { from, limit } => {
                let page = self.store.directory(shard, *from, *limit);
                self.note_nameless(shard, &page);
                Page::Directory(page)
            }
            LoadRequest::Segments { firsts, purpose, .. } => {
                match purpose {
                    LoadPurpose::Keys => self.stats.resumes += 1,
                    LoadPurpose::Scope(_) => self.stats.scope_resumes += 1,
                    LoadPurpose::Scan => {}
                }
                let page = self.store.segments(shard, firsts);
                self.note_unreadable(shard, &page);
                Page::Segments(page)
            }
        };
        self.note(|_| format!("load of shard {shard} {request:?}"));
        let arrives = self.now + self.rng.below(12);
        driver.load = Some(Load { request, page, arrives });
    }
}
