//! Which incidents are open, as a state machine over observations.
//!
//! An incident begins when something has stood past its bound for a while, and ends when it has stood within it for a while.
//! Each is told twice: the record says which of its messages are out, and a message keeps its id and its content until it is, so
//! that a host that ends in between enqueues none a second time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::rule::{Level, Rule};
use super::{DETAIL_BYTES_MAX, INCIDENTS_MAX};
use crate::one_line::one_line;
use crate::time::UnixMillis;

/// Bytes of the digest in a message's id.
const ID_BYTES: usize = 16;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub rule: Rule,
    /// What it is of: a transport, a relay, a source, a plugin; empty where there is one only.
    pub subject: String,
    pub level: Level,
    /// In words for people.
    pub detail: String,
}

/// What one round saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    pub now: UnixMillis,
    /// Rules of which all was seen: what isn't in `found` is well. Incidents of others stay as they are.
    pub known: BTreeSet<Rule>,
    pub found: Vec<Observation>,
}

impl Observations {
    fn of(&self, rule: Rule, subject: &str) -> Option<&Observation> {
        self.found.iter().find(|found| found.rule == rule && found.subject == subject)
    }

    fn level(&self, rule: Rule, subject: &str) -> Level {
        self.of(rule, subject).map_or(Level::Within, |found| found.level)
    }
}

/// How long something has to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Past its bound, until an incident begins.
    pub after: Duration,
    /// Within its bound, until it ends.
    pub clear_after: Duration,
}

impl Pace {
    fn after(self, rule: Rule) -> Duration {
        if rule.is_urgent() { Duration::ZERO } else { self.after }
    }
}

/// One of an incident's two messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Begin,
    End,
}

impl Phase {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::End => "end",
        }
    }
}

/// A message that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub rule: Rule,
    pub subject: String,
    /// The machine that saw it.
    pub host: String,
    pub phase: Phase,
    pub since: UnixMillis,
    /// When it was over; none = it isn't.
    pub until: Option<UnixMillis>,
    pub detail: String,
}

impl Notice {
    /// The message's id: the same each time this notice is made.
    pub fn id(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.host.as_str(), self.rule.as_str(), self.subject.as_str(), self.phase.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.update(self.since.0.to_be_bytes());
        let digest = hash.finalize();
        let hex: String = digest.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect();
        format!("alert-{hex}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Over {
    at: UnixMillis,
    detail: String,
}

/// Something that is wrong, from when it has lasted on until its end is out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    pub rule: Rule,
    pub subject: String,
    host: String,
    /// Since when it stands past its bound.
    pub since: UnixMillis,
    /// What was said of it when it began.
    detail: String,
    is_begin_sent: bool,
    over: Option<Over>,
    /// Since when it stands within its bound; counted anew after a start.
    #[serde(skip)]
    within_since: Option<UnixMillis>,
}

impl Incident {
    /// True when it ends with this round.
    fn go_on(&mut self, seen: &Observations, pace: Pace) -> bool {
        if self.over.is_some() || !seen.known.contains(&self.rule) {
            return false;
        }
        if seen.level(self.rule, &self.subject) != Level::Within {
            self.within_since = None;
            return false;
        }
        let since = *self.within_since.get_or_insert(seen.now);
        if seen.now.since(since) < pace.clear_after {
            return false;
        }
        let detail = seen.of(self.rule, &self.subject).map(|found| bounded(&found.detail)).unwrap_or_default();
        // It was over when it came within, which was before it is believed.
        self.over = Some(Over { at: since, detail });
        true
    }

    /// The message that is to be sent next, if any is.
    fn due(&self) -> Option<Notice> {
        let notice = |phase, until, detail: &str| Notice {
            rule: self.rule,
            subject: self.subject.clone(),
            host: self.host.clone(),
            phase,
            since: self.since,
            until,
            detail: detail.to_owned(),
        };
        match &self.over {
            _ if !self.is_begin_sent => Some(notice(Phase::Begin, None, &self.detail)),
            Some(over) => Some(notice(Phase::End, Some(over.at), &over.detail)),
            None => None,
        }
    }

    fn is_of(&self, rule: Rule, subject: &str) -> bool {
        self.rule == rule && self.subject == subject
    }
}

/// All incidents of a host that are open, or whose end isn't out yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incidents {
    open: Vec<Incident>,
    /// What stands past its bound, but not for long enough, and since when.
    #[serde(skip)]
    beginning: BTreeMap<(Rule, String), UnixMillis>,
}

impl Incidents {
    /// Goes on with what a round saw on the machine `host`. True when the record has to be written before anything is sent.
    pub fn observe(&mut self, host: &str, seen: &Observations, pace: Pace) -> bool {
        let mut is_changed = false;
        for incident in &mut self.open {
            is_changed |= incident.go_on(seen, pace);
        }
        self.beginning
            .retain(|(rule, subject), _| !seen.known.contains(rule) || seen.level(*rule, subject) == Level::Past);
        let past = seen.found.iter().filter(|found| found.level == Level::Past && seen.known.contains(&found.rule));
        for found in past {
            // One that is over is done with first: its end goes before the next beginning.
            if self.open.iter().any(|incident| incident.is_of(found.rule, &found.subject)) {
                continue;
            }
            let key = (found.rule, found.subject.clone());
            let since = *self.beginning.entry(key.clone()).or_insert(seen.now);
            if seen.now.since(since) < pace.after(found.rule) || self.open.len() >= INCIDENTS_MAX {
                continue;
            }
            self.beginning.remove(&key);
            self.open.push(Incident {
                rule: found.rule,
                subject: found.subject.clone(),
                host: host.to_owned(),
                since,
                detail: bounded(&found.detail),
                is_begin_sent: false,
                over: None,
                within_since: None,
            });
            is_changed = true;
        }
        is_changed
    }

    /// The next message of each incident that has one: an end only behind its beginning.
    pub fn due(&self) -> Vec<Notice> {
        self.open.iter().filter_map(Incident::due).collect()
    }

    /// A message is out.
    pub fn sent(&mut self, notice: &Notice) {
        let is_it =
            |incident: &Incident| incident.is_of(notice.rule, &notice.subject) && incident.since == notice.since;
        match notice.phase {
            Phase::Begin => {
                self.open.iter_mut().filter(|incident| is_it(incident)).for_each(|found| found.is_begin_sent = true);
            }
            Phase::End => self.open.retain(|incident| !is_it(incident)),
        }
    }

    /// Those that aren't over.
    pub fn open(&self) -> impl Iterator<Item = &Incident> {
        self.open.iter().filter(|incident| incident.over.is_none())
    }
}

/// A text on one line, as much of it as a message has.
fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(DETAIL_BYTES_MAX);
    let mut line = one_line(text.get(..end).unwrap_or_default()).into_owned();
    line.truncate(line.floor_char_boundary(DETAIL_BYTES_MAX));
    line
}
