//! The laws of a run, over its evidence alone: what clients were told, what the receiver saw, what the store holds.
//!
//! Operations of unknown outcome may have been committed or not, but as a whole; they are left out of the order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::judge::{Body, checksum, is_rejected};
use crate::api::Listed;
use crate::ledger::{Fate, Kind, Operation, Sent};
use crate::receiver::Arrival;

/// Everything that is compared.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Seed of the run: tells which messages the receiver never takes.
    pub seed: u64,
    /// What the clients did.
    pub operations: Vec<Operation>,
    /// What the receiver saw.
    pub arrivals: Vec<Arrival>,
    /// Requests to the receiver that weren't deliveries.
    pub faults: Vec<String>,
    /// Answers that a valid request should never get, and requests that a living host left without an answer.
    pub refusals: Vec<String>,
    /// Dead letters in the store.
    pub dead: Vec<Listed>,
    /// Delivered messages in the store.
    pub done: Vec<Listed>,
    /// Business rows in the store, with how often each is there.
    pub rows: BTreeMap<String, usize>,
    /// Messages that the store says are still on their way.
    pub left: u64,
    /// Starts of the host, so also the most owners there can have been.
    pub starts: u32,
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// Promise 1.
    Lost,
    /// Promise 2.
    Uninvited,
    /// Promise 3.
    DoubledWithoutCause,
    /// Promise 4.
    OutOfOrder,
    /// The row and the message commit together.
    RowXorMessage,
    /// A request is all or nothing.
    Torn,
    /// Another id, tenant, key or payload than was sent.
    Altered,
    /// A dead letter that the receiver didn't refuse and that no crash explains.
    DeadWithoutCause,
    /// The store's account differs from the receiver's.
    StoreDiffers,
    /// More owners than starts.
    TooManyOwners,
    /// An answer that no valid request should get, or none.
    Refused,
}

impl Law {
    pub const ALL: [Self; 11] = [
        Self::Lost,
        Self::Uninvited,
        Self::DoubledWithoutCause,
        Self::OutOfOrder,
        Self::RowXorMessage,
        Self::Torn,
        Self::Altered,
        Self::DeadWithoutCause,
        Self::StoreDiffers,
        Self::TooManyOwners,
        Self::Refused,
    ];

    /// As in the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Lost => "acknowledged and neither delivered nor dead",
            Self::Uninvited => "delivered and never committed by a client",
            Self::DoubledWithoutCause => "delivered again without a failure or a crash between",
            Self::OutOfOrder => "key order inversions",
            Self::RowXorMessage => "business row without message, or message without row",
            Self::Torn => "requests of which a part was committed",
            Self::Altered => "delivered with another id, tenant, key or payload",
            Self::DeadWithoutCause => "dead letters without a cause",
            Self::StoreDiffers => "store and receiver tell different stories",
            Self::TooManyOwners => "owners more than starts",
            Self::Refused => "valid requests refused or left without an answer",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub law: Law,
    /// Which message, and what happened.
    pub detail: String,
}

/// What the comparison found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    pub acknowledged: usize,
    /// Those of them that the receiver took.
    pub delivered: usize,
    pub dead: usize,
    pub transactions: usize,
    /// Messages of unknown outcome that were committed.
    pub unknown_committed: usize,
    /// Messages of unknown outcome that weren't.
    pub unknown_absent: usize,
    /// Messages that arrived under more than one owner.
    pub redelivered: usize,
    pub arrivals: usize,
}

impl Verdict {
    /// Breaches of one law.
    pub fn count(&self, law: Law) -> usize {
        self.violations.iter().filter(|violation| violation.law == law).count()
    }

    fn breach(&mut self, law: Law, detail: String) {
        self.violations.push(Violation { law, detail });
    }
}

/// The harness's name of a message that arrived.
pub(super) fn tag_of(arrival: &Arrival) -> Option<String> {
    body_of(arrival).map(|body| body.tag)
}

fn body_of(arrival: &Arrival) -> Option<Body> {
    serde_json::from_slice(&arrival.delivered.body).ok()
}

/// One message with all that is known of it.
struct Story<'e> {
    operation: &'e Operation,
    sent: &'e Sent,
    arrivals: Vec<&'e Arrival>,
    dead: Option<&'e Listed>,
    done: bool,
}

impl Story<'_> {
    fn delivered(&self) -> bool {
        self.arrivals.iter().any(|arrival| arrival.accepted())
    }
    /// It is in the outbox or was: delivered, tried or dead.
    fn committed(&self) -> bool {
        !self.arrivals.is_empty() || self.dead.is_some() || self.done
    }
}

pub fn check(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict { arrivals: evidence.arrivals.len(), dead: evidence.dead.len(), ..Verdict::default() };
    let stories = stories(evidence, &mut verdict);
    for story in stories.values() {
        fate(evidence, story, &mut verdict);
        repeats(story, &mut verdict);
    }
    whole(evidence, &stories, &mut verdict);
    order(&stories, evidence, &mut verdict);
    owners(evidence, &mut verdict);
    for fault in &evidence.faults {
        verdict.breach(Law::Altered, fault.clone());
    }
    for refusal in &evidence.refusals {
        verdict.breach(Law::Refused, refusal.clone());
    }
    if evidence.left > 0 {
        verdict.breach(
            Law::StoreDiffers,
            format!("{} messages are still on their way after the last drain", evidence.left),
        );
    }
    verdict
}

/// Brings the three accounts together by the harness's own names; what fits nowhere is uninvited.
fn stories<'e>(evidence: &'e Evidence, verdict: &mut Verdict) -> BTreeMap<&'e str, Story<'e>> {
    let mut stories: BTreeMap<&str, Story> = BTreeMap::new();
    for operation in &evidence.operations {
        for sent in &operation.messages {
            let story = Story { operation, sent, arrivals: Vec::new(), dead: None, done: false };
            stories.insert(&sent.tag, story);
        }
    }
    let mut by_id: HashMap<(&str, &str), &str> = HashMap::new();
    for arrival in &evidence.arrivals {
        let Some(body) = body_of(arrival) else {
            verdict.breach(
                Law::Altered,
                format!("message {} arrived with a payload that nobody sent", arrival.delivered.id),
            );
            continue;
        };
        let Some(story) = stories.get_mut(body.tag.as_str()) else {
            verdict.breach(Law::Uninvited, format!("{} arrived and no client sent it", body.tag));
            continue;
        };
        let (sent, delivered) = (story.sent, &arrival.delivered);
        story.arrivals.push(arrival);
        by_id.insert((&delivered.tenant, &delivered.id), &sent.tag);
        let same = sent.tenant == delivered.tenant
            && sent.key == delivered.key
            && sent.id.as_ref().is_none_or(|id| *id == delivered.id)
            && checksum(&body.pad) == body.sum;
        if !same {
            verdict.breach(
                Law::Altered,
                format!("{}: sent {sent:?}, arrived as {}", sent.tag, super::report::arrival_json(arrival)),
            );
        }
    }
    for operation in &evidence.operations {
        for sent in &operation.messages {
            if let Some(id) = &sent.id {
                by_id.insert((&sent.tenant, id), &sent.tag);
            }
        }
    }
    for (listed, is_dead) in
        evidence.dead.iter().map(|item| (item, true)).chain(evidence.done.iter().map(|item| (item, false)))
    {
        let tag = by_id.get(&(listed.tenant.as_str(), listed.id.as_str()));
        match tag.and_then(|tag| stories.get_mut(tag)) {
            Some(story) if is_dead => story.dead = Some(listed),
            Some(story) => story.done = true,
            None => verdict.breach(Law::Uninvited, format!("the store has {listed:?}, which no client sent")),
        }
    }
    stories
}

/// What became of one message.
fn fate(evidence: &Evidence, story: &Story, verdict: &mut Verdict) {
    let tag = &story.sent.tag;
    match &story.operation.fate {
        Fate::Ok => {
            verdict.acknowledged += 1;
            verdict.delivered += usize::from(story.delivered());
            if !story.delivered() && story.dead.is_none() {
                verdict.breach(
                    Law::Lost,
                    format!("{tag} ({:?}) was acknowledged; arrivals: {}", story.sent.id, story.arrivals.len()),
                );
            }
        }
        Fate::Failed(why) if story.committed() => {
            verdict.breach(Law::Uninvited, format!("{tag} was refused ({why}) and yet committed"));
        }
        Fate::Failed(_) => {}
        Fate::Open => verdict.breach(Law::Refused, format!("{tag} was sent and its end was never noted")),
        Fate::Unknown(_) if story.committed() => verdict.unknown_committed += 1,
        Fate::Unknown(_) => verdict.unknown_absent += 1,
    }
    if let Some(dead) = story.dead {
        let refused = story.arrivals.iter().any(|arrival| arrival.status == 422);
        if !refused {
            verdict.breach(Law::DeadWithoutCause, format!("{tag}: {dead:?}"));
        }
        if story.delivered() {
            verdict.breach(Law::StoreDiffers, format!("{tag} was delivered and is a dead letter: {dead:?}"));
        }
    } else if is_rejected(evidence.seed, tag) && story.committed() {
        verdict.breach(Law::StoreDiffers, format!("{tag} is refused by the receiver and is no dead letter"));
    }
    if story.done && !story.delivered() {
        verdict.breach(Law::StoreDiffers, format!("{tag} is done in the store and was never delivered"));
    }
    if story.delivered() && !story.done && story.dead.is_none() {
        verdict.breach(Law::StoreDiffers, format!("{tag} was delivered and isn't done in the store"));
    }
}

/// A second arrival needs a reported failure under the same owner, or another owner.
fn repeats(story: &Story, verdict: &mut Verdict) {
    let mut owners = BTreeSet::new();
    for arrival in &story.arrivals {
        owners.insert(arrival.delivered.epoch);
    }
    verdict.redelivered += usize::from(owners.len() > 1);
    for (before, after) in story.arrivals.iter().zip(story.arrivals.iter().skip(1)) {
        let (first, second) = (&before.delivered, &after.delivered);
        let after_failure = first.epoch == second.epoch
            && before.answered
            && !before.accepted()
            && before.status != 422
            && second.attempt > first.attempt;
        let after_crash = second.epoch > first.epoch && second.attempt >= first.attempt;
        if !after_failure && !after_crash {
            let [before, after] = [before, after].map(|arrival| super::report::arrival_json(arrival).to_string());
            verdict.breach(Law::DoubledWithoutCause, format!("{}: {before} then {after}", story.sent.tag));
        }
        if second.seq != first.seq && !story.sent.scheduled && first.epoch == second.epoch {
            verdict.breach(Law::Altered, format!("{}: seq {} then {}", story.sent.tag, first.seq, second.seq));
        }
    }
}

/// Every operation is all or nothing, its business row included.
fn whole(evidence: &Evidence, stories: &BTreeMap<&str, Story>, verdict: &mut Verdict) {
    let mut expected = BTreeSet::new();
    for operation in &evidence.operations {
        let own = || operation.messages.iter().filter_map(|sent| stories.get(sent.tag.as_str()));
        let committed = own().filter(|story| story.committed()).count();
        if committed != 0 && committed != operation.messages.len() {
            let tags: Vec<_> = own().map(|story| (&story.sent.tag, story.committed())).collect();
            verdict.breach(Law::Torn, format!("operation {}: {tags:?}", operation.number));
        }
        verdict.transactions += usize::from(operation.kind == Kind::Transaction && operation.fate == Fate::Ok);
        let Some(row) = &operation.row else { continue };
        expected.insert(row);
        let there = evidence.rows.get(row).copied().unwrap_or(0);
        if there > 1 || (there == 1) != (committed > 0) {
            verdict.breach(
                Law::RowXorMessage,
                format!("row {row} is there {there} times, {committed} of its messages are"),
            );
        }
    }
    for row in evidence.rows.keys().filter(|row| !expected.contains(row)) {
        verdict.breach(Law::RowXorMessage, format!("row {row} is there and no client sent it"));
    }
}

/// Acknowledged messages of one key, in the order in which one producer was answered: the next is not attempted before
/// the one before it is through, so all arrivals of the one come before all arrivals of the other.
fn order(stories: &BTreeMap<&str, Story>, evidence: &Evidence, verdict: &mut Verdict) {
    let mut last: HashMap<(&str, &str), (&str, usize)> = HashMap::new();
    for operation in evidence.operations.iter().filter(|operation| operation.fate == Fate::Ok) {
        for sent in operation.messages.iter().filter(|sent| !sent.scheduled) {
            let (Some(key), Some(story)) = (&sent.key, stories.get(sent.tag.as_str())) else { continue };
            let orders = || story.arrivals.iter().map(|arrival| arrival.order);
            let (Some(first), Some(end)) = (orders().min(), orders().max()) else { continue };
            let place = last.entry((&sent.tenant, key)).or_insert((&sent.tag, end));
            if place.0 != sent.tag && place.1 > first {
                verdict.breach(
                    Law::OutOfOrder,
                    format!(
                        "key {key}: {} was tried (arrival {first}) before {} was through (arrival {})",
                        sent.tag, place.0, place.1
                    ),
                );
            }
            *place = (&sent.tag, end.max(place.1));
        }
    }
}

/// Every start is one owner at most, and a later owner has a larger token.
fn owners(evidence: &Evidence, verdict: &mut Verdict) {
    let epochs: BTreeSet<u64> = evidence.arrivals.iter().map(|arrival| arrival.delivered.epoch).collect();
    if epochs.len() > evidence.starts as usize {
        verdict.breach(
            Law::TooManyOwners,
            format!("{} owners sent, the host was started {} times", epochs.len(), evidence.starts),
        );
    }
    let mut highest = 0;
    for arrival in &evidence.arrivals {
        if arrival.delivered.epoch < highest {
            let detail = format!("{} arrived from an owner before {highest}", super::report::arrival_json(arrival));
            verdict.breach(Law::TooManyOwners, detail);
        }
        highest = highest.max(arrival.delivered.epoch);
    }
}
