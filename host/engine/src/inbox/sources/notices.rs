//! What a source tells besides deliveries, and what is lost of it.

use tokio::time::Instant;
use waybill_core::inbox::limits::UNSETTLED_FOLLOWED_MAX;
use waybill_core::inbox::settings::SourceId;
use waybill_core::port::source::{LaneNotices, Notices};

use crate::inbox::actor::Actor;

impl Actor {
    pub(super) fn noticed(&mut self, source: usize, told: LaneNotices) {
        let id = self.home.instances_of(source).nth(usize::try_from(told.lane).unwrap_or(usize::MAX));
        let Some(id) = id else { return };
        // Of another session than what is in hand it says nothing.
        let is_mine = self.sources.lane(id).is_some_and(|lane| lane.session == Some(told.session));
        if is_mine {
            self.take_notices(source, id, told.notices);
        } else if told.notices.waiting
            && let Some(lane) = self.sources.lane(id)
        {
            lane.pull_at = Instant::now();
        }
    }

    pub(super) fn take_notices(&mut self, source: usize, id: SourceId, notices: Notices) {
        let now = self.shared.context.clock.now();
        let Notices { revoked, lost, waiting, attributes } = notices;
        if !revoked.is_empty() {
            let before = self.owner.in_hand(id);
            self.owner.revoked(id, &revoked, now);
            self.count_lost(source, "revoked", before.saturating_sub(self.owner.in_hand(id)));
        }
        if !lost.is_empty() {
            self.count_lost(source, "lost", lost.len());
            self.owner.lost(id, &lost, now);
        }
        if let Some(lane) = self.sources.lane(id).filter(|_| waiting) {
            lane.pull_at = Instant::now();
        }
        let Some(place) = self.sources.places.get(source) else { return };
        for (name, value) in attributes {
            let Ok(number) = value.parse::<u64>() else { continue };
            match name.as_str() {
                "lag" => place.seat.change(|figures| figures.lag = Some(number)),
                "overtaken" => {
                    place.seat.change(|figures| figures.overtaken += number);
                    self.shared.meter.overtaken(&place.home.config.name, number);
                }
                "claims-expired" => self.shared.meter.claims_expired(&place.home.config.name, number),
                // Each instance tells it.
                "made-anew" if number > 0 && self.home.instances_of(source).next() == Some(id) => {
                    let name = &place.home.config.name;
                    tracing::warn!(
                        source = name.as_str(),
                        "what a source reads from was made anew: it begins at the start, and what wasn't read of the one before is gone"
                    );
                    place.seat.change(|figures| figures.made_anew += number);
                    self.shared.meter.made_anew(name, number);
                }
                _ => {}
            }
        }
    }

    /// Whether it is still known where a source stands that has no place of its own at its peer.
    pub(super) fn look_for_place(&self, source: usize) {
        let Some(place) = self.sources.places.get(source) else { return };
        let is_lost = self.home.instances_of(source).any(|id| self.owner.has_lost_place(id));
        if is_lost == place.seat.figures().is_place_lost {
            return;
        }
        place.seat.change(|figures| figures.is_place_lost = is_lost);
        if is_lost {
            let name = &place.home.config.name;
            tracing::warn!(
                source = name.as_str(),
                limit = UNSETTLED_FOLLOWED_MAX,
                "more of a source is unsettled than is followed: after a restart it begins where it stood before, and what was handled since then is seen again"
            );
            self.shared.meter.place_lost(name);
        }
    }

    pub(super) fn count_lost(&self, source: usize, cause: &'static str, count: usize) {
        if let Some(place) = self.sources.places.get(source) {
            self.shared.meter.lost(&place.home.config.name, cause, count);
        }
    }
}
