//! The history and the feed of changes as the API sees them.

use waybill_api::history::{ChangeView, Changed, ChangesAsked, HistorySeries, HistoryView};
use waybill_core::changes::Change;
use waybill_core::history::{HistoryRead, Measure, Points, STEP};

use crate::service::Outbox;

impl Outbox {
    /// The history of one measure; none = of all.
    pub(crate) fn read_history(&self, measure: Option<Measure>) -> HistoryView {
        let now = self.context.clock.now();
        let read = self.history.lock().read(now, |series| measure.is_none_or(|wanted| series.measure == wanted));
        let HistoryRead { since, from, series, left_out } = read;
        HistoryView {
            since: since.into(),
            from: from.into(),
            step_ms: u64::try_from(STEP.as_millis()).unwrap_or(u64::MAX),
            series: series.into_iter().map(series_view).collect(),
            left_out: left_out as u64,
        }
    }

    /// The latest changes that may be seen.
    pub(crate) fn read_changes(&self, asked: &ChangesAsked) -> Changed {
        let is_for = |change: &Change| asked.tenants.as_ref().is_none_or(|tenants| change.is_for(tenants));
        let (since, kept) = self.context.config.changes.latest(asked.since, asked.limit, is_for);
        Changed { since: since.into(), items: kept.into_iter().map(ChangeView::from).collect() }
    }
}

fn series_view(points: Points) -> HistorySeries {
    let Points { series, points } = points;
    let subject = series.subject();
    HistorySeries {
        name: series.measure,
        kind: if series.measure.is_count() { "count" } else { "level" }.to_owned(),
        by: subject.map(|(by, _)| by.to_owned()),
        of: subject.map(|(_, name)| name.to_owned()),
        points: points.into_iter().map(|point| point.map(u64::from)).collect(),
    }
}
