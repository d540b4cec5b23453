//! Sagas that a takeover can't restore.

use std::sync::Arc;

use super::{Bench, T0, bench, done, key, step};
use crate::commit::{Step, Writer};
use crate::ids::ShardId;
use crate::saga::error::SagaError;
use crate::saga::id::DefinitionHash;
use crate::saga::limits::SagaLimits;
use crate::saga::machine::Rules;
use crate::saga::records::{JournalRecord, SagaCommit, SagaTakeover, SagaWrite};
use crate::saga::shard::{SagaShard, SagaShardConfig, rebuilt};
use crate::saga::state::SagaState;
use crate::time::Now;

/// What a new writer would find of these commits.
fn found(bench: &Bench, commits: &[SagaCommit]) -> SagaTakeover {
    let record = |commit: &SagaCommit| JournalRecord { beat: commit.record.beat, entries: commit.journal.clone() };
    let journal = commits.iter().map(record).collect();
    SagaTakeover { record: *bench.shard.record(), journal, ..SagaTakeover::default() }
}

#[test]
fn a_saga_without_its_beginning_is_set_aside_in_a_commit_and_the_journal_is_cut() {
    let mut bench = bench(&format!("{}{}", step("a", ""), step("b", "")));
    bench.start();
    bench.answer("a", done());
    let definitions = Arc::clone(&bench.definitions);
    let lookup = |hash: &DefinitionHash| definitions.by_hash(hash).cloned();
    let config = SagaShardConfig {
        shard: ShardId(0),
        tx_events: None,
        limits: SagaLimits::default(),
        rules: Rules::default(),
        died: true,
    };
    let takeover = found(&bench, bench.commits.get(1..).unwrap());
    let mut restored = SagaShard::restore(config, takeover.clone(), lookup, T0, 0.5);
    assert_eq!(restored.broken.iter().map(|broken| broken.key.clone()).collect::<Vec<_>>(), [key()]);
    let shard = &mut restored.shard;
    let first = shard.build(7).unwrap();
    let [SagaWrite::SetAside(broken)] = first.writes.as_slice() else { panic!("{first:?}") };
    assert_eq!(broken.entries, takeover.journal.first().unwrap().entries);
    assert!(first.journal.iter().all(|entry| entry.ended && entry.key == key()) && first.journal.len() == 1);
    assert_eq!(first.record.floor, first.record.beat);

    // It didn't go in, so it is tried again.
    let Step::Barrier(barrier) = shard.resolve(&takeover.record, Now::default(), 8) else { panic!("not known yet") };
    assert!(matches!(shard.resolve(&barrier.record, Now::default(), 9), Step::NotApplied(())));
    assert_eq!(shard.build(10).unwrap().writes, first.writes);
    shard.committed();
    assert!(!shard.has_work());
}

#[test]
fn what_a_takeover_finds_before_a_saga_was_set_aside_is_of_no_use_to_it() {
    let mut bench = bench(&format!("{}{}", step("a", ""), step("b", "")));
    bench.start();
    bench.answer("a", done());
    let config = SagaShardConfig {
        shard: ShardId(0),
        tx_events: None,
        limits: SagaLimits::default(),
        rules: Rules::default(),
        died: true,
    };
    let takeover = found(&bench, &bench.commits);
    // Nobody knows its definition.
    let mut restored = SagaShard::restore(config.clone(), takeover.clone(), |_| None, T0, 0.5);
    let commit = restored.shard.build(7).unwrap();
    let mut later = takeover.clone();
    later.journal.push(JournalRecord { beat: commit.record.beat, entries: commit.journal });
    let again = SagaShard::restore(config, later, |_| None, T0, 0.5);
    assert!(again.broken.is_empty() && !again.shard.has_work());

    let definitions = Arc::clone(&bench.definitions);
    assert!(rebuilt(&key(), &takeover, |_| None).unwrap_err().contains("definition"));
    let whole = rebuilt(&key(), &takeover, |hash| definitions.by_hash(hash).cloned()).unwrap();
    assert_eq!((&whole.tree, whole.summary.state), (&bench.tree(), SagaState::Running));
    let gap = found(&bench, bench.commits.get(1..).unwrap());
    assert!(rebuilt(&key(), &gap, |hash| definitions.by_hash(hash).cloned()).is_err());
}

#[test]
fn the_id_of_a_saga_that_is_being_set_aside_begins_no_other_one() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    let takeover = found(&bench, &bench.commits);
    let config = SagaShardConfig {
        shard: ShardId(0),
        tx_events: None,
        limits: SagaLimits::default(),
        rules: Rules::default(),
        died: true,
    };
    bench.shard = SagaShard::restore(config, takeover, |_| None, T0, 0.5).shard;
    let looked_up = bench.shard.record().beat;
    let refused = bench.start_as("{}", looked_up);
    assert_eq!(bench.code(refused), "STORAGE.CORRUPT");
    // Set aside by now. Who looked before that looks again, and hears of it.
    let refused = bench.start_as("{}", looked_up);
    assert!(matches!(refused, Err(SagaError::LookAgain)), "{refused:?}");
}

#[test]
fn events_that_come_twice_are_passed_over_only_if_the_row_holds_them() {
    let mut bench = bench(&format!("{}{}", step("a", ""), step("b", "")));
    bench.start();
    bench.answer("a", done());
    let whole = found(&bench, &bench.commits);
    let definitions = Arc::clone(&bench.definitions);
    let lookup = |hash: &DefinitionHash| definitions.by_hash(hash).cloned();
    let config = SagaShardConfig {
        shard: ShardId(0),
        tx_events: None,
        limits: SagaLimits::default(),
        rules: Rules::default(),
        died: true,
    };
    let row = Arc::new(rebuilt(&key(), &whole, lookup).unwrap());
    // A record that stood elsewhere when the saga went on from what was before it.
    let mut twice = whole.clone();
    let mut again = whole.journal.last().unwrap().clone();
    again.beat += 1;
    again.entries.iter_mut().for_each(|entry| entry.events.truncate(1));
    twice.journal.push(again);
    let restored = SagaShard::restore(config.clone(), twice.clone(), lookup, T0, 0.5);
    let [broken] = restored.broken.as_slice() else { panic!("{:?}", restored.broken) };
    assert!(broken.reason.contains("twice") && broken.entries.len() == 3, "{broken:?}");
    assert!(rebuilt(&key(), &twice, lookup).unwrap_err().contains("twice"));

    twice.rows.push(Arc::clone(&row));
    let restored = SagaShard::restore(config, twice, lookup, T0, 0.5);
    assert!(restored.broken.is_empty(), "{:?}", restored.broken);
    // The same entry from two places is one.
    let mut same = whole.clone();
    same.journal.extend(whole.journal);
    assert_eq!(rebuilt(&key(), &same, lookup).unwrap(), *row);
}
