//! Where an id lies in the seen set.
//!
//! The bucket is a function of the id, so that a look-up reads one place: ids with a time in them by their minute, ids that end in a
//! counter by blocks of it, all others in runs by the age at which they were written.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fingerprint::{ContentCheck, Fingerprint};
use super::limits::{COUNTER_BLOCK, ID_TIME_AHEAD_MAX, ID_TIME_PAST_MAX};
use crate::ids::ConsumerName;
use crate::time::UnixMillis;

/// Time in which somebody owned the shard, by boot-time clocks, since its first owner. The window of the seen set is measured in it, so
/// that no step of a wall clock shortens it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnedAge(pub u64);

impl OwnedAge {
    /// Later by a duration, in whole milliseconds.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// What is older than this is out of a window that ends now; none while nothing can be.
    #[must_use]
    pub fn window_start(self, window: Duration) -> Option<Self> {
        self.0.checked_sub(u64::try_from(window.as_millis()).unwrap_or(u64::MAX)).map(Self)
    }
}

/// Which of the three forms an id has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdForm {
    /// A time stands inside: ULID, UUID of version 1, 6 or 7, ours, an entry of a Redis stream with the stream before it or without.
    Time(UnixMillis),
    /// A text and a counter: `outbox-17`, `orders/12`, `topic/3/170`.
    Counter { text: Arc<str>, number: u64 },
    /// Neither: UUID of version 4, a hash.
    Neither,
}

/// Longest counter, in digits: it fits 64 bits.
const COUNTER_DIGITS_MAX: usize = 19;
/// A UUID with its dashes.
const UUID_BYTES: usize = 36;
/// So many hexadecimal digits in a row are a hash or a random number.
const HASH_DIGITS_MIN: usize = 16;
/// What may stand between a text and its counter.
const SEPARATORS: [char; 7] = ['-', '/', ':', '.', '_', '#', '|'];

impl IdForm {
    pub fn of(id: &str) -> Self {
        if let Some(at) = uuid_time(id).or_else(|| ulid_time(id)).or_else(|| redis_time(id)) {
            return at.map_or(Self::Neither, Self::Time);
        }
        let text = id.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let digits = id.get(text.len()..).unwrap_or_default();
        // A number behind a letter is as likely part of a hash: then each id had a bucket of its own.
        let is_apart = text.is_empty() || text.ends_with(SEPARATORS);
        let is_counter = is_apart && (1..=COUNTER_DIGITS_MAX).contains(&digits.len());
        // With leading zeros, two texts would be one number.
        let is_plain = digits.len() == 1 || !digits.starts_with('0');
        // Behind what names one thing only, each id or two had a bucket of its own, too.
        let may_count = || is_counter && is_plain && !holds_a_name_of_one(id, text);
        match digits.parse() {
            Ok(number) if may_count() => Self::Counter { text: Arc::from(text), number },
            _ => Self::Neither,
        }
    }
}

/// Whether an id, or the text before its counter, holds what is drawn anew for each thing: `order-<UUID>-3`, `job:<hash>:2`. The last
/// digits of a UUID may be what looks like the counter.
fn holds_a_name_of_one(id: &str, text: &str) -> bool {
    let has_uuid = id.as_bytes().windows(UUID_BYTES).any(is_uuid);
    // Without a letter it may be a time or a counter of the application's, which many ids share.
    let is_hash = |run: &str| run.len() >= HASH_DIGITS_MIN && run.bytes().any(|digit| digit.is_ascii_alphabetic());
    let has_hash = || text.split(|letter: char| !letter.is_ascii_hexdigit()).any(is_hash);
    let has_ulid = || text.split(SEPARATORS).any(|part| ulid_time(part).is_some());
    has_uuid || has_hash() || has_ulid()
}

/// Whether bytes have the form of a UUID with dashes.
fn is_uuid(bytes: &[u8]) -> bool {
    let is_part = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    bytes.len() == UUID_BYTES && bytes.iter().enumerate().all(is_part)
}

/// Some: a UUID, with its time if its version has one.
fn uuid_time(id: &str) -> Option<Option<UnixMillis>> {
    if !is_uuid(id.as_bytes()) {
        return None;
    }
    let hex: String = id.chars().filter(|letter| *letter != '-').collect();
    let value = (hex.len() == 32).then(|| u128::from_str_radix(&hex, 16).ok())??;
    // 100 nanoseconds since 1582-10-15, as versions 1 and 6 count.
    let gregorian = |ticks: u128| u64::try_from(ticks / 10_000).ok()?.checked_sub(12_219_292_800_000);
    let millis = match value >> 76 & 0xF {
        7 => u64::try_from(value >> 80).ok(),
        6 => gregorian(value >> 80 << 12 | value >> 64 & 0xFFF),
        1 => gregorian((value >> 64 & 0xFFF) << 48 | (value >> 80 & 0xFFFF) << 32 | value >> 96),
        _ => None,
    };
    Some(millis.map(UnixMillis))
}

/// Of a ULID, which ids of ours are, too.
fn ulid_time(id: &str) -> Option<Option<UnixMillis>> {
    let is_plain = id.len() == 26 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let ulid = is_plain.then(|| ulid::Ulid::from_string(id).ok())??;
    Some(Some(UnixMillis(ulid.timestamp_ms())))
}

/// Of an entry of a Redis stream, `1700000000000-0` or `orders/1700000000000-0`: thirteen digits are milliseconds from 2001 to 2286. As
/// counters, the entries of each millisecond had a bucket of their own.
fn redis_time(id: &str) -> Option<Option<UnixMillis>> {
    let entry = id.rsplit_once('/').map_or(id, |(_, entry)| entry);
    let (millis, number) = entry.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_entry = millis.len() == 13 && is_number(millis) && is_number(number);
    is_entry.then(|| millis.parse().ok().map(UnixMillis))
}

/// A bucket of a consumer's seen set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Bucket {
    /// Minutes since 1970 of the time inside the ids.
    Minute(u64),
    /// Counters behind a text, from `block` times [`COUNTER_BLOCK`] on.
    Counter { text: Arc<str>, block: u64 },
    /// Runs by the age at which they were written. A look-up asks all of them.
    Runs,
}

/// What stands for an id within its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    Hash(Fingerprint),
    /// Place of a counter in its block.
    Number(u16),
}

/// Where one id lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeenPlace {
    pub bucket: Bucket,
    pub member: Member,
}

impl SeenPlace {
    /// Where an id is written that is finished now. `stamp` is the time that counts instead of the id's form
    /// (`id_time = "occurred_at"`).
    pub fn of(id: &str, fingerprint: Fingerprint, stamp: Option<UnixMillis>, now: UnixMillis) -> Self {
        let form = stamp.map_or_else(|| IdForm::of(id), IdForm::Time);
        match form {
            IdForm::Time(at) if at.plus(ID_TIME_PAST_MAX) >= now && at <= now.plus(ID_TIME_AHEAD_MAX) => {
                Self::of_minute(at, fingerprint)
            }
            IdForm::Counter { text, number } => Self {
                bucket: Bucket::Counter { text, block: number / COUNTER_BLOCK },
                member: Member::Number(u16::try_from(number % COUNTER_BLOCK).unwrap_or(0)),
            },
            IdForm::Time(_) | IdForm::Neither => Self::in_runs(fingerprint),
        }
    }

    /// Where an id may have been written, whatever the clock and `id_time` said then. `stamp` is when its message happened, where that
    /// is known, whether it counts now or not: within the window it may have counted or not. The runs come last, for they may be many.
    pub fn all_of(id: &str, fingerprint: Fingerprint, stamp: Option<UnixMillis>) -> Vec<Self> {
        let form = IdForm::of(id);
        let mut places = match &form {
            IdForm::Time(at) => vec![Self::of_minute(*at, fingerprint)],
            // It doesn't depend on the clock.
            IdForm::Counter { .. } => vec![Self::of(id, fingerprint, None, UnixMillis(0))],
            IdForm::Neither => Vec::new(),
        };
        let by_stamp = stamp.map(|at| Self::of_minute(at, fingerprint));
        places.extend(by_stamp.filter(|place| !places.contains(place)));
        if !matches!(form, IdForm::Counter { .. }) {
            places.push(Self::in_runs(fingerprint));
        }
        places
    }

    /// Among the runs: where the dead letters of reused ids lie, too.
    pub fn in_runs(fingerprint: Fingerprint) -> Self {
        Self { bucket: Bucket::Runs, member: Member::Hash(fingerprint) }
    }

    fn of_minute(at: UnixMillis, fingerprint: Fingerprint) -> Self {
        Self { bucket: Bucket::Minute(at.0 / 60_000), member: Member::Hash(fingerprint) }
    }
}

/// One id that is finished: what a commit appends to the seen set, under the age of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenMark {
    pub consumer: ConsumerName,
    pub place: SeenPlace,
    pub check: ContentCheck,
}

/// A question to the seen set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenQuery {
    pub consumer: ConsumerName,
    /// Read in this order, until one has it.
    pub places: Vec<SeenPlace>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn counter(text: &str, number: u64) -> IdForm {
        IdForm::Counter { text: Arc::from(text), number }
    }

    #[test]
    fn ids_with_a_time_are_found_by_it() {
        let at = |id| match IdForm::of(id) {
            IdForm::Time(at) => at.0,
            other => panic!("{id}: {other:?}"),
        };
        assert_eq!(at("01ARZ3NDEKTSV4RRFFQ69G5FAV"), 1_469_922_850_259);
        assert_eq!(at("1700000000000-3"), 1_700_000_000_000);
        assert_eq!(at("shop-1/orders.created/1700000000000-3"), 1_700_000_000_000);
        assert_eq!(at("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), 1_645_557_742_000);
        assert_eq!(at("1EC9414C-232A-6B00-B3C8-9F6BDECED846"), 1_645_557_742_000);
        assert_eq!(at("C232AB00-9414-11EC-B3C8-9F6BDECED846"), 1_645_557_742_000);
        let ours = crate::ids::host_made_id(crate::ids::Place {
            shard: crate::ids::ShardId(3),
            segment: crate::ids::Seq(1_700_000_000_000 << 20),
            index: 5,
        });
        assert_eq!(at(ours.as_str()), 1_700_000_000_000);
    }

    #[test]
    fn ids_with_a_counter_are_found_by_blocks_of_it() {
        assert_eq!(IdForm::of("outbox-17"), counter("outbox-", 17));
        assert_eq!(IdForm::of("orders@1700/12"), counter("orders@1700/", 12));
        assert_eq!(IdForm::of("AAECAw/3/170"), counter("AAECAw/3/", 170));
        assert_eq!(IdForm::of("0"), counter("", 0));
        assert_eq!(IdForm::of("orders@1700000000000000000/12"), counter("orders@1700000000000000000/", 12));
        assert_eq!(IdForm::of("deadbeef-17"), counter("deadbeef-", 17));
        let place = SeenPlace::of("outbox-65537", Fingerprint::default(), None, UnixMillis(0));
        assert_eq!(place.bucket, Bucket::Counter { text: Arc::from("outbox-"), block: 1 });
        assert_eq!(place.member, Member::Number(1));
    }

    #[test]
    fn what_has_neither_lies_in_runs() {
        for id in [
            "0f8fad5b-d9cb-469f-a165-708677289501",
            "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
            "outbox-017",
            "order",
            "order17",
            "x-99999999999999999999",
            "order-0f8fad5b-d9cb-469f-a165-708677289501-3",
            "order-0f8fad5b-d9cb-469f-a165-708677289501",
            "0F8FAD5B-D9CB-469F-A165-708677289501/17",
            "job:9c56cc51b374c3ba:2",
            "order-01ARZ3NDEKTSV4RRFFQ69G5FAV-3",
        ] {
            assert_eq!(IdForm::of(id), IdForm::Neither, "{id}");
        }
    }

    #[test]
    fn a_time_far_from_now_lies_in_runs_and_both_places_are_asked() {
        let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let at = UnixMillis(1_469_922_850_259);
        let place = |now| SeenPlace::of(id, Fingerprint::default(), None, now).bucket;
        assert_eq!(place(at), Bucket::Minute(at.0 / 60_000));
        assert_eq!(place(at.plus(ID_TIME_PAST_MAX)), Bucket::Minute(at.0 / 60_000));
        assert_eq!(place(at.plus(ID_TIME_PAST_MAX + Duration::from_secs(1))), Bucket::Runs);
        assert_eq!(place(UnixMillis(at.0 - 2 * 24 * 3_600_000)), Bucket::Runs);
        let asked = SeenPlace::all_of(id, Fingerprint::default(), None);
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().any(|place| place.bucket == Bucket::Runs));
        assert_eq!(SeenPlace::all_of("outbox-1", Fingerprint::default(), None).len(), 1);
    }

    #[test]
    fn a_stamp_counts_instead_of_the_id() {
        let (id, now) = ("0f8fad5b-d9cb-469f-a165-708677289501", UnixMillis(1_700_000_000_000));
        let place = SeenPlace::of(id, Fingerprint::default(), Some(now), now);
        assert_eq!(place.bucket, Bucket::Minute(now.0 / 60_000));
    }

    #[test]
    fn what_was_filed_before_id_time_was_changed_is_found() {
        let now = UnixMillis(1_700_000_000_000);
        let ids =
            ["0f8fad5b-d9cb-469f-a165-708677289501", "01HF7YAT00TSV4RRFFQ69G5FAV", "outbox-17", "1700000000000-3"];
        for id in ids {
            let asked = SeenPlace::all_of(id, Fingerprint::default(), Some(now));
            for stamp in [None, Some(now)] {
                let written = SeenPlace::of(id, Fingerprint::default(), stamp, now);
                assert!(asked.contains(&written), "{id}: {written:?}");
            }
            let own = SeenPlace::all_of(id, Fingerprint::default(), None);
            assert!(asked.len() <= own.len() + 1, "{id}: one more place at most");
        }
        let entry = SeenPlace::all_of("1700000000000-3", Fingerprint::default(), Some(now));
        assert_eq!(entry.len(), 2, "the same minute isn't read twice");
    }

    #[test]
    fn a_window_has_no_start_before_it_is_full() {
        assert_eq!(OwnedAge(5_000).window_start(Duration::from_secs(6)), None);
        assert_eq!(OwnedAge(5_000).window_start(Duration::from_secs(2)), Some(OwnedAge(3_000)));
    }
}
