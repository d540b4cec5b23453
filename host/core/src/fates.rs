//! What became of the messages that a bulk replay put back.
//!
//! A message that was put back carries the operation's id ([`crate::message::Message::replayed_by`]). The commit that puts it back and
//! the one that settles it count it there: nothing is looked through later.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::outbox::records::DeadLetter;

/// Messages tried before the rest at most: all of them are waited for.
pub const TRIAL_MAX: u32 = 1_000;

/// Counts of one operation, or what one commit adds to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fates {
    pub put_back: u64,
    /// Delivered since they were put back.
    pub delivered: u64,
    /// Dead again since they were put back.
    pub died: u64,
    /// Taken back by an operator, or over before it could be sent.
    pub ended: u64,
    /// The first that died again, as far as it is known.
    pub first_death: Option<Death>,
}

/// A message that died again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Death {
    /// Id of the message.
    pub id: String,
    /// Code that it died with.
    pub code: String,
}

impl Death {
    pub fn of(dead: &DeadLetter) -> Self {
        Self { id: dead.message.id.to_string(), code: dead.code.clone() }
    }
}

/// What happens to a message that a bulk replay put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    PutBack,
    Delivered,
    Died(Death),
    /// Taken back, or over.
    Ended,
}

impl Fates {
    pub fn count(&mut self, fate: Fate) {
        match fate {
            Fate::PutBack => self.put_back += 1,
            Fate::Delivered => self.delivered += 1,
            Fate::Died(death) => {
                self.died += 1;
                self.first_death.get_or_insert(death);
            }
            Fate::Ended => self.ended += 1,
        }
    }

    /// Adds what came later.
    pub fn add(&mut self, later: &Self) {
        self.put_back = self.put_back.saturating_add(later.put_back);
        self.delivered = self.delivered.saturating_add(later.delivered);
        self.died = self.died.saturating_add(later.died);
        self.ended = self.ended.saturating_add(later.ended);
        if self.first_death.is_none() {
            self.first_death.clone_from(&later.first_death);
        }
    }

    /// How many of them wait or are being sent.
    pub fn on_the_way(&self) -> u64 {
        self.put_back.saturating_sub(self.delivered.saturating_add(self.died).saturating_add(self.ended))
    }
}

/// A few messages that a replay puts back first: the rest follows when all of them are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// How many, from 1.
    pub size: u32,
    pub state: TrialState,
}

/// How a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialState {
    /// Not all of its messages are settled.
    Running,
    /// All of its messages were delivered.
    Passed,
    /// One of its messages wasn't delivered.
    Failed,
}

/// What a trial has its operation do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialStep {
    /// Put another one back; with [`TrialState::Passed`] all the others.
    GoOn(TrialState),
    /// Wait for a fate.
    Wait,
    /// Stop, for this reason.
    Stop(String),
}

impl Trial {
    pub fn new(size: u32) -> Self {
        Self { size: size.clamp(1, TRIAL_MAX), state: TrialState::Running }
    }

    /// What follows from the fates so far. `is_last`: there is nothing more to put back.
    pub fn step(self, fates: &Fates, is_last: bool) -> TrialStep {
        if self.state != TrialState::Running {
            return TrialStep::GoOn(self.state);
        }
        if fates.died > 0 {
            return TrialStep::Stop(died_again(fates));
        }
        if fates.ended > 0 {
            let text = "a message of the trial was taken back or was over before it could be sent, so nothing else was put back";
            return TrialStep::Stop(text.to_owned());
        }
        if fates.put_back < u64::from(self.size) && !is_last {
            return TrialStep::GoOn(TrialState::Running);
        }
        match fates.delivered >= fates.put_back {
            true => TrialStep::GoOn(TrialState::Passed),
            false => TrialStep::Wait,
        }
    }
}

fn died_again(fates: &Fates) -> String {
    let example =
        fates.first_death.as_ref().map_or_else(String::new, |death| format!(" ({}: {})", death.id, death.code));
    format!(
        "{} of the {} put back on trial died again{example}, so nothing else was put back",
        fates.died, fates.put_back
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(id: &str) -> Death {
        Death { id: id.to_owned(), code: "HTTP.422".to_owned() }
    }

    fn fates(put_back: u64, delivered: u64) -> Fates {
        Fates { put_back, delivered, ..Fates::default() }
    }

    #[test]
    fn what_is_neither_delivered_nor_dead_nor_over_is_on_its_way() {
        let mut sum = fates(5, 1);
        sum.count(Fate::Died(death("a")));
        sum.count(Fate::Ended);
        assert_eq!(sum.on_the_way(), 2);
        assert_eq!(fates(1, 2).on_the_way(), 0, "a row that was lost makes no negative number");
    }

    #[test]
    fn sums_keep_the_first_death() {
        let mut sum = fates(2, 0);
        for id in ["a", "b"] {
            let mut later = Fates::default();
            later.count(Fate::Died(death(id)));
            sum.add(&later);
        }
        assert_eq!((sum.died, sum.first_death), (2, Some(death("a"))));
    }

    #[test]
    fn a_trial_puts_so_many_back_and_waits_until_all_are_delivered() {
        let trial = Trial::new(3);
        assert_eq!(trial.step(&fates(0, 0), false), TrialStep::GoOn(TrialState::Running));
        assert_eq!(trial.step(&fates(2, 2), false), TrialStep::GoOn(TrialState::Running));
        assert_eq!(trial.step(&fates(3, 2), false), TrialStep::Wait);
        assert_eq!(trial.step(&fates(3, 3), false), TrialStep::GoOn(TrialState::Passed));
    }

    #[test]
    fn a_trial_of_fewer_than_there_was_room_for_is_waited_for_too() {
        let trial = Trial::new(5);
        assert_eq!(trial.step(&fates(2, 1), true), TrialStep::Wait);
        assert_eq!(trial.step(&fates(2, 2), true), TrialStep::GoOn(TrialState::Passed));
        assert_eq!(trial.step(&fates(0, 0), true), TrialStep::GoOn(TrialState::Passed), "there was nothing to try");
    }

    #[test]
    fn one_that_dies_again_or_is_over_stops_the_trial_at_once() {
        let trial = Trial::new(3);
        let mut died = fates(2, 1);
        died.count(Fate::Died(death("m-7")));
        let TrialStep::Stop(why) = trial.step(&died, false) else { unreachable!("it goes on") };
        assert!(why.contains("1 of the 2") && why.contains("m-7: HTTP.422"), "{why}");
        let mut ended = fates(3, 2);
        ended.count(Fate::Ended);
        assert!(matches!(trial.step(&ended, false), TrialStep::Stop(_)));
    }

    #[test]
    fn what_dies_after_the_trial_stops_nothing() {
        let passed = Trial { size: 1, state: TrialState::Passed };
        let mut died = fates(9, 1);
        died.count(Fate::Died(death("m-7")));
        assert_eq!(passed.step(&died, false), TrialStep::GoOn(TrialState::Passed));
    }
}
