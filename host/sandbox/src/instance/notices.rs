//! What instances tell between their answers, kept until somebody asks for it.
//!
//! One entry a lane: what an instance told before it was lost says nothing of what the next one brings. Bound: [`NOTICES_MAX`]
//! groups and deliveries a lane; the oldest are forgotten, for settling them is answered as lost anyway.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;
use waybill_core::port::source::{LaneNotices, Notices};

use crate::limits::NOTICES_MAX;

#[derive(Default)]
pub(super) struct NoticeBoard {
    told: Mutex<VecDeque<LaneNotices>>,
    more: Notify,
}

impl NoticeBoard {
    /// Keeps what an instance tells; nothing to tell isn't kept.
    pub(super) fn tell(&self, lane: u32, session: u64, notices: Notices) {
        if notices == Notices::default() {
            return;
        }
        {
            let mut told = self.told.lock();
            told.retain(|other| other.lane != lane || other.session == session);
            match told.iter_mut().find(|other| other.lane == lane) {
                Some(earlier) => {
                    earlier.notices.then(notices);
                    forget_oldest(&mut earlier.notices.revoked);
                    forget_oldest(&mut earlier.notices.lost);
                }
                None => told.push_back(LaneNotices { lane, session, notices }),
            }
        }
        self.more.notify_one();
    }

    /// Takes what an instance has told.
    pub(super) fn take(&self, lane: u32, session: u64) -> Option<Notices> {
        let mut told = self.told.lock();
        let at = told.iter().position(|other| other.lane == lane)?;
        told.remove(at).filter(|told| told.session == session).map(|told| told.notices)
    }

    /// Waits until an instance tells something, and takes it.
    pub(super) async fn next(&self) -> LaneNotices {
        loop {
            let more = self.more.notified();
            if let Some(told) = self.told.lock().pop_front() {
                return told;
            }
            more.await;
        }
    }
}

fn forget_oldest<T>(list: &mut Vec<T>) {
    let over = list.len().saturating_sub(NOTICES_MAX);
    list.drain(..over);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::FutureExt;

    fn revoked(group: &str) -> Notices {
        Notices { revoked: vec![group.to_owned()], ..Notices::default() }
    }

    #[tokio::test]
    async fn what_is_told_is_taken_once_and_in_order() {
        let board = NoticeBoard::default();
        board.tell(0, 1, Notices::default());
        assert!(board.next().now_or_never().is_none(), "nothing to tell isn't kept");
        board.tell(0, 1, revoked("a"));
        board.tell(1, 2, revoked("b"));
        board.tell(0, 1, revoked("c"));
        assert_eq!(
            board.next().await,
            LaneNotices {
                lane: 0,
                session: 1,
                notices: Notices { revoked: vec!["a".into(), "c".into()], ..Notices::default() }
            }
        );
        assert_eq!(board.take(1, 2), Some(revoked("b")));
        assert_eq!(board.take(1, 2), None);
    }

    #[tokio::test]
    async fn what_a_lost_instance_told_is_forgotten() {
        let board = NoticeBoard::default();
        board.tell(0, 1, revoked("a"));
        board.tell(0, 2, revoked("b"));
        assert_eq!(board.next().await.session, 2);
        board.tell(0, 2, revoked("c"));
        assert_eq!(board.take(0, 3), None);
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let board = NoticeBoard::default();
        let (told, ()) =
            tokio::join!(board.next(), async { board.tell(0, 1, Notices { waiting: true, ..Notices::default() }) });
        assert!(told.notices.waiting);
    }
}
