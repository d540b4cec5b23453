//! Schedules that random seeds meet seldom, one a rule: with the rule it holds, without it somebody is hurt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waybill_core::commit::{Step, StoreAnswer};
use waybill_core::ids::{EventId, RelayName, ShardId, Tenant};
use waybill_core::port::store::StoreError;
use waybill_core::streams::event::{Body, Event, EventLimits, Op};
use waybill_core::streams::name::{StreamKey, StreamName, StreamPattern};
use waybill_core::streams::owner::{DirectAnswer, Extras, OwnerConfig, StreamOwner, Ticket, take_answer, takeover};
use waybill_core::streams::reading::{FeedReader, FeedWants, PageLimits, Restart, Ring, Selector, page};
use waybill_core::streams::records::{Append, StreamCommit};
use waybill_core::streams::relay::{Relay, RelayOutcome, RelaySettings, Relays};
use waybill_core::streams::rules::{Rule, Rules};
use waybill_core::streams::upkeep::{Act, Compaction, Latest, Retention, UpkeepView, compact, trim};
use waybill_core::time::{Monotonic, Now, UnixMillis};

use crate::memory_store::MemoryStore;

const SHARD: ShardId = ShardId(0);

/// One shard on a store, and its owner.
struct Scene {
    store: MemoryStore,
    owner: StreamOwner,
    rules: Rules,
    holds: bool,
    nonce: u64,
}

fn stream(name: &str) -> StreamKey {
    StreamKey { tenant: Tenant::unnamed(), name: StreamName::new(name).unwrap() }
}

fn relay_name() -> RelayName {
    RelayName::new("out").unwrap()
}

/// An append of events, each written as its id, its resource and `-` for a delete: `"1a"`, `"2a-"`.
fn append(name: &str, events: &[&str], is_indexed: bool) -> Arc<Append> {
    let events = events.iter().map(|text| {
        let event = Event {
            id: EventId::new(text).unwrap(),
            ts: UnixMillis(1),
            resource_type: "TASK".into(),
            resource_id: text[1..2].into(),
            op: if text.ends_with('-') { Op::DELETE } else { Op::UPDATE },
            schema_version: 1,
            node_uuid: None,
            correlation_id: None,
            cause: None,
            headers: BTreeMap::new(),
            content_type: None,
            body: Body::Bytes(Bytes::new()),
        };
        event.admit(&stream(name).name, &EventLimits::default(), is_indexed).unwrap()
    });
    Arc::new(Append::new(stream(name), events.collect()))
}

impl Scene {
    fn new(rules: Rules, holds: bool) -> Self {
        let store = MemoryStore::new();
        store.set_clock(1);
        let owner = Self::own(&store, rules, holds, 1);
        Self { store, owner, rules, holds, nonce: 100 }
    }

    fn own(store: &MemoryStore, rules: Rules, holds: bool, token: u64) -> StreamOwner {
        let stored = store.read(|tables| tables.streams.shard(SHARD));
        let commit = takeover(SHARD, token, token, &stored).unwrap();
        store.apply_streams(&commit).unwrap();
        let settings =
            RelaySettings { holds, rules, ..RelaySettings::new(relay_name(), StreamPattern::parse("**").unwrap()) };
        let relays = Relays::new(vec![Relay::new(settings, &commit.record)]);
        let config = OwnerConfig { rules, ..OwnerConfig::new(SHARD, 1, Duration::from_secs(3_600)) };
        StreamOwner::new(config, commit.record, relays, Monotonic::default())
    }

    /// The process dies, and another one takes over.
    fn die(&mut self) {
        let token = self.owner.record().token + 1;
        self.owner = Self::own(&self.store, self.rules, self.holds, token);
    }

    fn put(&self, name: &str, events: &[&str]) {
        let appends = [(SHARD, append(name, events, true))];
        self.store.write(|tables| {
            let tx = tables.streams.begin_door(&appends);
            tables.streams.apply_tx(&tx, 1).unwrap();
        });
    }

    fn build(&mut self, extras: Extras) -> Option<StreamCommit> {
        self.nonce += 1;
        let query = self.owner.plan(false)?;
        let found = self.store.read(|tables| tables.streams.pass(SHARD, &query, 1));
        let now = Now { wall: UnixMillis(10), mono: Monotonic(Duration::from_millis(10)) };
        self.owner.build(found, extras, now, self.nonce).commit
    }

    fn settle(&mut self, answer: StoreAnswer<waybill_core::streams::records::StreamShardRecord>) -> Step<StreamOwner> {
        self.nonce += 1;
        let nonce = self.nonce;
        take_answer(&mut self.owner, answer, Now::default(), || nonce)
    }

    /// One commit that goes in, if there is something to commit.
    fn commit(&mut self, act: Option<Act>) {
        let Some(commit) = self.build(Extras { act, trim_feed: None }) else { return };
        let committed = self.store.apply_streams(&commit);
        let answer = self.owner.take_committed(committed).unwrap();
        assert!(matches!(self.settle(answer), Step::Applied(_)));
    }

    fn view(&self, name: &str) -> UpkeepView {
        let (slice, checkpoint) = self.store.read(|tables| {
            (
                tables.streams.slice(&stream(name), 0, usize::MAX),
                tables.streams.checkpoint(&relay_name(), &stream(name)),
            )
        });
        let holding: Vec<_> = self.holds.then_some(checkpoint).into_iter().collect();
        UpkeepView::new(stream(name), self.owner.record().beat, &slice, &holding, self.rules)
    }

    /// Retention that keeps so many events.
    fn trimming(&self, name: &str, keep: u64) -> Option<Act> {
        let retention = Retention { keep_count: Some(keep), ..Retention::default() };
        trim(&self.view(name), &retention, UnixMillis(10), self.rules)
    }

    fn relay(&mut self) -> &mut Relay {
        self.owner.relays_mut().get_mut(&relay_name()).unwrap()
    }

    /// The relay takes the feed, without reading streams.
    fn take_feed(&mut self) {
        let record = self.owner.record().clone();
        let feed: Vec<_> = self.store.read(|tables| tables.streams.feed.values().cloned().collect());
        let relay = self.relay();
        let Some(after) = relay.feed_wanted(&record) else { return };
        let feed: Vec<_> = feed.into_iter().filter(|next| next.pos > after).collect();
        relay.take_feed(&feed, &record);
    }

    fn take_window(&mut self, name: &str) {
        let read = self.store.read(|tables| tables.streams.relay_slice(&relay_name(), &stream(name), 0, usize::MAX));
        self.relay().take_window(&stream(name), &read);
    }

    /// What may be sent is sent, and acknowledged.
    fn send_all(&mut self) {
        loop {
            let sends = self.relay().sends(Monotonic::default(), 99);
            if sends.is_empty() {
                return;
            }
            for send in sends {
                self.relay().answer(&send.stream, send.seq, send.generation, RelayOutcome::Acknowledged);
            }
        }
    }

    /// Whether somebody was told that the relay lost something.
    fn is_loss_told(&self) -> bool {
        self.store.read(|tables| !tables.streams.overtaken.is_empty())
    }
}

/// With all rules nobody is hurt; without this one somebody is.
fn check(rule: Rule, hurts: impl Fn(Rules) -> bool) {
    assert!(!hurts(Rules::default()), "{rule:?} holds, and yet");
    assert!(hurts(Rules::without(rule)), "nobody noticed that {rule:?} was left out");
}

#[test]
fn a_reader_from_before_a_dropped_delete_is_told_to_begin_anew() {
    check(Rule::ComparePurged, |rules| {
        let mut scene = Scene::new(rules, false);
        scene.put("s", &["1a", "2a-", "3b"]);
        scene.commit(None);
        let (view, compaction) = (scene.view("s"), Compaction { tombstone_keep: Some(Duration::ZERO) });
        let mut latest = Latest::behind(None, usize::MAX);
        view.chunks.iter().for_each(|chunk| latest.see(chunk));
        let act = compact(&view, &latest, &compaction, UnixMillis(10), rules);
        scene.commit(act);
        // It had a's update, and would never hear of its delete.
        let slice = scene.store.read(|tables| tables.streams.slice(&stream("s"), 1, usize::MAX));
        page(&slice, 1, 0, PageLimits::default(), rules).is_ok()
    });
}

#[test]
fn a_commit_without_an_answer_isnt_repeated_while_it_may_still_go_in() {
    check(Rule::Barrier, |rules| {
        let mut scene = Scene::new(rules, false);
        scene.owner.append(Ticket(1), append("s", &["1a"], false));
        // It joins behind a pass that began after it came.
        let first = scene.build(Extras::default()).unwrap();
        let unknown = StoreError::Unavailable("no answer".into());
        assert!(matches!(scene.settle(StoreAnswer::Committed(Err(unknown))), Step::Read(_)));
        let record = |scene: &Scene| StoreAnswer::Record(Ok(scene.store.read(|tables| tables.streams.shard(SHARD))));
        let read = record(&scene);
        if let Step::Barrier(barrier) = scene.settle(read) {
            scene.store.apply_streams(&barrier).unwrap();
            let read = record(&scene);
            assert!(matches!(scene.settle(read), Step::NotApplied(())));
        }
        let second = scene.build(Extras::default()).unwrap();
        // Now the first one goes in, if it still can.
        let _late = scene.store.apply_streams(&first);
        let mut answers = Vec::new();
        let mut next = Some(second);
        while let Some(commit) = next.take() {
            let committed = scene.store.apply_streams(&commit);
            let answer = scene.owner.take_committed(committed).unwrap();
            match scene.settle(answer) {
                Step::Applied(applied) => answers.extend(applied.answers),
                _ => {
                    let read = record(&scene);
                    assert!(matches!(scene.settle(read), Step::NotApplied(())));
                    // A stream that moved is left out once, and goes alone then.
                    next = (0..2).find_map(|_| scene.build(Extras::default()));
                }
            }
        }
        let is_told = matches!(&answers[..], [(Ticket(1), DirectAnswer::Numbered { .. })]);
        assert!(is_told, "{answers:?}");
        scene.store.read(|tables| tables.streams.head(&stream("s")).last) > 1
    });
}

#[test]
fn a_checkpoint_goes_over_a_trimmed_range_only_aloud() {
    check(Rule::NotOverTrimmed, |rules| {
        let mut scene = Scene::new(rules, false);
        scene.put("s", &["1a", "2b"]);
        scene.commit(None);
        scene.put("s", &["3a"]);
        scene.commit(None);
        let act = scene.trimming("s", 1);
        scene.commit(act);
        scene.take_feed();
        scene.take_window("s");
        scene.commit(None);
        scene.send_all();
        scene.commit(None);
        let upto = scene.store.read(|tables| tables.streams.checkpoint(&relay_name(), &stream("s")).upto);
        assert_eq!(upto, 3);
        !scene.is_loss_told()
    });
}

#[test]
fn no_upkeep_takes_what_a_seek_goes_back_to_in_the_same_commit() {
    check(Rule::UpkeepApartFromSeek, |rules| {
        let mut scene = Scene::new(rules, true);
        for event in ["1a", "2b", "3c"] {
            scene.put("s", &[event]);
            scene.commit(None);
        }
        scene.take_feed();
        scene.take_window("s");
        scene.send_all();
        scene.commit(None);
        let (slice, checkpoint) = scene.store.read(|tables| {
            (tables.streams.slice(&stream("s"), 0, 0), tables.streams.checkpoint(&relay_name(), &stream("s")))
        });
        assert_eq!(checkpoint.upto, 3);
        let beat = scene.owner.record().beat;
        scene.relay().seek(&stream("s"), &checkpoint, 0);
        scene.relay().seek_look(&stream("s"), &slice, beat);
        let act = scene.trimming("s", 1);
        assert!(act.is_some(), "the relay had all of it");
        scene.commit(act);
        let (rest, checkpoint) = scene
            .store
            .read(|tables| (tables.streams.rest(&stream("s")), tables.streams.checkpoint(&relay_name(), &stream("s"))));
        assert_eq!(checkpoint.generation, 1);
        rest.first > checkpoint.upto + 1
    });
}

#[test]
fn a_stream_that_was_trimmed_under_the_relay_holds_its_mark() {
    check(Rule::MarkWaitsForTrimmed, |rules| {
        let mut scene = Scene::new(rules, false);
        scene.put("s", &["1a"]);
        scene.commit(None);
        scene.put("t", &["2a"]);
        scene.commit(None);
        scene.take_feed();
        // Before the relay has read s, all of it is trimmed; t is relayed.
        let act = scene.trimming("s", 0);
        scene.commit(act);
        scene.take_window("t");
        scene.send_all();
        scene.commit(None);
        scene.die();
        scene.take_feed();
        for (stream, _) in scene.relay().windows_wanted(9, Monotonic::default(), |_| false) {
            scene.take_window(stream.name.as_str());
        }
        scene.commit(None);
        !scene.is_loss_told()
    });
}

#[test]
fn who_scans_again_is_told_of_what_went_meanwhile() {
    check(Rule::CompareGone, |rules| {
        let mut scene = Scene::new(rules, false);
        scene.put("s", &["1a"]);
        scene.commit(None);
        let (ring, selector) = (Ring::default(), Selector::Prefix(String::new()));
        let mut reader = FeedReader::from_earliest(Tenant::unnamed(), selector, 1, 1, rules);
        let ends = |scene: &Scene| vec![scene.store.read(|tables| tables.streams.shard(SHARD).pos)];
        let (mut had, mut told) = (0, false);
        for round in 0..2 {
            for _ in 0..40 {
                had += std::iter::from_fn(|| reader.next()).count();
                let followed = match reader.wants(&ring) {
                    FeedWants::Nothing | FeedWants::Live => Ok(()),
                    FeedWants::Ends => {
                        reader.take_ends(ends(&scene));
                        Ok(())
                    }
                    FeedWants::Scan(query) => reader.take_scan(scene.store.read(|tables| tables.streams.scan(&query))),
                    FeedWants::Feed(shard, pos) => {
                        reader.take_feed(scene.store.read(|tables| tables.streams.feed_slice(shard, pos)))
                    }
                    FeedWants::Selected(stream, selector) => {
                        let is_selected = scene.store.read(|tables| tables.streams.is_selected(&stream, &selector));
                        reader.take_selected(is_selected)
                    }
                };
                told |= followed == Err(Restart::Expired);
            }
            if round == 0 {
                assert_eq!(had, 1);
                scene.put("s", &["2b"]);
                scene.commit(None);
                let act = scene.trimming("s", 0);
                scene.commit(act);
                scene.store.write(|tables| tables.streams.feed.clear());
                reader.look_again();
            }
        }
        had < 2 && !told
    });
}
