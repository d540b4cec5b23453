//! The latest log lines of each endpoint, for who follows one plugin: `waybill plugin logs`.
//!
//! Bounds: [`LOG_KEPT_LINES_MAX`] and [`LOG_KEPT_BYTES_MAX`] an endpoint, [`LOG_KEPT_ENDPOINTS_MAX`] endpoints. What it doesn't do: survive the
//! host, or replace the host's own log, which has every line.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use waybill_api::plugins::{PluginLog, PluginLogAsked, PluginLogLine};
use waybill_core::one_line::into_one_line;
use waybill_core::time::UnixMillis;

use crate::limits::{LOG_KEPT_BYTES_MAX, LOG_KEPT_ENDPOINTS_MAX, LOG_KEPT_LINES_MAX, LOG_MESSAGE_BYTES_MAX};
use crate::text::cut_owned;

/// Numbers that a millisecond has room for: those of a later start are higher, since nobody writes as many.
const NUMBERS_A_MILLISECOND: u64 = 1_000;

/// The pages of a host's endpoints, by the name that logs know each by.
#[derive(Default)]
pub(crate) struct LogBook(Mutex<BTreeMap<String, Arc<LogPage>>>);

impl LogBook {
    /// The page of an endpoint; a new one if it has none.
    pub(crate) fn page(&self, endpoint: &str) -> Arc<LogPage> {
        let mut pages = self.0.lock();
        if let Some(page) = pages.get(endpoint) {
            return Arc::clone(page);
        }
        if pages.len() >= LOG_KEPT_ENDPOINTS_MAX {
            // Those of endpoints that are gone.
            pages.retain(|_, page| Arc::strong_count(page) > 1);
        }
        let page = Arc::new(LogPage::new(now()));
        pages.insert(endpoint.to_owned(), Arc::clone(&page));
        page
    }

    /// The page of an endpoint that wrote, or could have.
    pub(crate) fn find(&self, endpoint: &str) -> Option<Arc<LogPage>> {
        self.0.lock().get(endpoint).cloned()
    }
}

/// What an entry says, without its number and time.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) level: &'static str,
    pub(crate) generation: u32,
    pub(crate) instance: Option<u32>,
    pub(crate) message: String,
    pub(crate) fields: BTreeMap<String, String>,
}

/// The latest lines of one endpoint, over all its generations.
pub(crate) struct LogPage {
    kept: Mutex<Kept>,
    /// Number of the latest line.
    latest: watch::Sender<u64>,
}

struct Kept {
    lines: VecDeque<PluginLogLine>,
    bytes: usize,
    /// The number before the first that was ever given here.
    before: u64,
}

impl LogPage {
    fn new(at: UnixMillis) -> Self {
        let before = at.0.saturating_mul(NUMBERS_A_MILLISECOND);
        let kept = Mutex::new(Kept { lines: VecDeque::new(), bytes: 0, before });
        Self { kept, latest: watch::Sender::new(before) }
    }

    /// Keeps what the host says of a plugin among the plugin's own lines.
    pub(crate) fn note(&self, generation: u32, instance: Option<u32>, message: String) {
        let message = cut_owned(into_one_line(message), LOG_MESSAGE_BYTES_MAX);
        self.write(Entry { level: "warn", generation, instance, message, fields: BTreeMap::new() });
    }

    /// Keeps a line, and lets the oldest go.
    pub(crate) fn write(&self, entry: Entry) {
        let mut kept = self.kept.lock();
        let number = self.latest.borrow().saturating_add(1);
        let Entry { level, generation, instance, message, fields } = entry;
        let line =
            PluginLogLine { number, at: now().into(), level: level.to_owned(), generation, instance, message, fields };
        kept.bytes = kept.bytes.saturating_add(size(&line));
        kept.lines.push_back(line);
        while kept.lines.len() > LOG_KEPT_LINES_MAX || kept.bytes > LOG_KEPT_BYTES_MAX {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes = kept.bytes.saturating_sub(size(&oldest));
        }
        // While the lines are locked, so that numbers and lines agree.
        self.latest.send_replace(number);
    }

    /// The lines that are asked for, as soon as there is one or the time is over.
    pub(crate) async fn read(&self, asked: PluginLogAsked) -> PluginLog {
        let deadline = Instant::now() + asked.wait;
        let mut latest = self.latest.subscribe();
        loop {
            latest.mark_unchanged();
            let found = self.behind(asked.after, asked.limit);
            if !found.items.is_empty() {
                return found;
            }
            // The page outlives this call, so only the time can end the wait otherwise.
            let Ok(Ok(())) = timeout_at(deadline, latest.changed()).await else { return found };
        }
    }

    fn behind(&self, after: u64, limit: usize) -> PluginLog {
        let kept = self.kept.lock();
        let latest = *self.latest.borrow();
        // A number that isn't given yet is of an earlier start whose clock was ahead.
        let after = if after > latest { 0 } else { after };
        let items: Vec<PluginLogLine> =
            kept.lines.iter().filter(|line| line.number > after).take(limit).cloned().collect();
        let missed = match (after, items.first()) {
            (0, _) | (_, None) => 0,
            (after, Some(first)) => first.number.saturating_sub(after.max(kept.before)).saturating_sub(1),
        };
        PluginLog { next: items.last().map_or(after.max(latest), |line| line.number), items, missed }
    }
}

fn size(line: &PluginLogLine) -> usize {
    let fields: usize = line.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    std::mem::size_of::<PluginLogLine>() + line.message.len() + fields
}

fn now() -> UnixMillis {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(message: &str) -> Entry {
        Entry { level: "info", generation: 1, instance: Some(0), message: message.to_owned(), fields: BTreeMap::new() }
    }

    fn all(limit: usize) -> PluginLogAsked {
        PluginLogAsked { after: 0, limit, wait: Duration::ZERO }
    }

    fn words(log: &PluginLog) -> Vec<&str> {
        log.items.iter().map(|line| line.message.as_str()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_on_from_next_misses_nothing_and_reads_nothing_twice() {
        let page = LogPage::new(UnixMillis(7));
        ["one", "two", "three"].into_iter().for_each(|word| {
            page.write(entry(word));
        });
        let first = page.read(all(2)).await;
        assert_eq!(words(&first), ["one", "two"]);
        let second = page.read(PluginLogAsked { after: first.next, ..all(2) }).await;
        assert_eq!((words(&second), second.missed), (vec!["three"], 0));
        let none = page.read(PluginLogAsked { after: second.next, ..all(2) }).await;
        assert_eq!((none.items.len(), none.next), (0, second.next));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_waits_is_woken_by_the_next_line() {
        let page = Arc::new(LogPage::new(UnixMillis(7)));
        let after = page.read(all(9)).await.next;
        let reader = Arc::clone(&page);
        let asked = PluginLogAsked { after, limit: 9, wait: Duration::from_secs(20) };
        let waiting = tokio::spawn(async move { reader.read(asked).await });
        tokio::task::yield_now().await;
        page.write(entry("now"));
        assert!(waiting.await.is_ok_and(|log| words(&log) == ["now"]));
        assert!(page.read(PluginLogAsked { after: after + 1, ..asked }).await.items.is_empty(), "the time is over");
    }

    #[tokio::test(start_paused = true)]
    async fn lines_and_bytes_are_bounded_and_what_is_gone_is_counted() {
        let page = LogPage::new(UnixMillis(7));
        page.write(entry("first"));
        let after = page.read(all(1)).await.next;
        (0..LOG_KEPT_LINES_MAX + 10).for_each(|number| page.write(entry(&number.to_string())));
        let log = page.read(PluginLogAsked { after, ..all(usize::MAX) }).await;
        assert_eq!((log.items.len(), log.missed), (LOG_KEPT_LINES_MAX, 10));
        (0..LOG_KEPT_LINES_MAX).for_each(|_| page.write(entry(&"x".repeat(LOG_KEPT_BYTES_MAX / 10))));
        assert!(page.read(all(usize::MAX)).await.items.len() < 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_number_of_another_start_reads_all_that_is_kept() {
        let page = LogPage::new(UnixMillis(7));
        page.write(entry("one"));
        assert_eq!(words(&page.read(PluginLogAsked { after: u64::MAX, ..all(9) }).await), ["one"]);
        let later = LogPage::new(UnixMillis(8));
        later.write(entry("two"));
        let after = page.read(all(9)).await.next;
        let log = later.read(PluginLogAsked { after, ..all(9) }).await;
        assert_eq!((words(&log), log.missed), (vec!["two"], 0));
    }

    #[test]
    fn pages_of_endpoints_that_are_gone_make_room() {
        let book = LogBook::default();
        let held = book.page("held");
        held.write(entry("kept"));
        (0..LOG_KEPT_ENDPOINTS_MAX * 2).for_each(|number| drop(book.page(&format!("e{number}"))));
        assert!(book.0.lock().len() <= LOG_KEPT_ENDPOINTS_MAX);
        assert!(book.find("held").is_some_and(|page| Arc::ptr_eq(&page, &held)));
    }
}
