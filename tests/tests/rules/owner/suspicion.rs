//! Who is blamed for a crash, and what waits for it.

use super::bench::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use waybill_core::annotation::Annotation;
use waybill_core::outbox::owner::{Sending, Verdict};
use waybill_core::outbox::suspicion::{Suspect, Suspicion};

/// A second: crashes come no faster here.
const LIFE: u64 = 1_000;
/// Long enough for every quiet time, and longer than a life that makes suspects wait.
const LONG: u64 = 610_000;

fn name(sending: &Sending) -> String {
    sending.message.annotation(Annotation::CorrelationId).unwrap().to_owned()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("m{n}")).collect()
}

/// Sends until the host dies of the poison, or nothing more is sent. What was sent, and whether it died. The poison kills
/// as soon as it is handed over, so nothing that goes with it is heard of.
fn live(bench: &mut Bench, poison: &str, sent: &mut BTreeMap<String, usize>) -> bool {
    bench.commit();
    // Suspects on trial by themselves wait a while.
    for wait in [0, LONG] {
        bench.pass_time(wait);
        bench.commit();
        loop {
            let sending = bench.take(4);
            if sending.is_empty() {
                break;
            }
            for one in &sending {
                *sent.entry(name(one)).or_default() += 1;
            }
            if sending.iter().any(|one| name(one) == poison) {
                bench.crash();
                return true;
            }
            for one in &sending {
                assert!(bench.settle(one, ack()));
            }
            bench.commit();
        }
    }
    false
}

#[test]
fn a_poison_is_found_alone_and_its_neighbours_are_sent_a_few_times_at_most() {
    for count in [1_usize, 2, 5, 16, 100] {
        for poison in [0, count / 2, count - 1] {
            let poison = format!("m{poison}");
            let mut bench = Bench::new();
            bench.enqueue(names(count).iter().map(|name| message(name)).collect());
            let (mut sent, mut crashes) = (BTreeMap::new(), 0);
            while live(&mut bench, &poison, &mut sent) {
                crashes += 1;
            }
            let dead = bench.dead();
            assert_eq!(dead.len(), 1, "{poison} of {count}");
            assert_eq!(dead[0].code, "SUSPECTED_POISON");
            assert_eq!(dead[0].message.annotation(Annotation::CorrelationId), Some(&*poison));
            // One without caution, one that names it, the halves, and three alone. No more than four lie named with it.
            assert!(crashes <= 2 + 5 + 3, "{poison} of {count}: {crashes} crashes");
            assert_eq!(bench.history().len(), count - 1);
            let most = sent.iter().filter(|(name, _)| **name != poison).map(|(_, times)| *times).max().unwrap_or(0);
            // With it unnamed, named, in each of its halves, and once without it.
            assert!(most <= 2 + 4 + 1, "{poison} of {count}: a neighbour was sent {most} times");
            assert!(bench.owner.record().suspicion.suspects.is_empty(), "nobody is left suspect");
        }
    }
}

#[test]
fn an_owner_that_is_not_cautious_names_nothing_and_writes_nothing_for_it() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one"), message("two")]);
    assert_eq!(bench.take(10).len(), 2, "one commit is enough");
    assert!(bench.commit_one().0.is_none());
    assert!(bench.owner.record().suspicion.is_empty());
}

#[test]
fn after_a_crash_only_what_a_commit_has_named_is_sent() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one"), message("two")]);
    assert_eq!(bench.take(1).len(), 1);
    bench.crash();
    assert!(bench.owner.is_cautious());
    assert!(bench.owner.record().suspicion.suspects.is_empty(), "nothing was named, so nobody is blamed");
    bench.enqueue(vec![message("three")]);
    let sending = bench.take(2);
    let calling = bench.owner.record().suspicion.calling.clone();
    assert!(sending.len() == 2 && sending.iter().all(|one| calling.contains(&one.seq)), "{calling:?}");
    for one in &sending {
        assert!(bench.settle(one, ack()));
    }
    bench.commit();
    let settled: BTreeSet<_> = sending.iter().map(|one| one.seq).collect();
    assert!(bench.owner.record().suspicion.calling.is_disjoint(&settled), "what is settled is named no longer");
}

#[test]
fn the_next_of_a_key_is_named_by_the_commit_that_settles_the_one_before() {
    let mut bench = Bench::new();
    bench.enqueue((0..3).map(|n| keyed(&format!("m{n}"), "k")).collect());
    bench.crash();
    bench.commit();
    for n in 0..3 {
        let sending = bench.take(10);
        assert_eq!(sending.iter().map(name).collect::<Vec<_>>(), [format!("m{n}")]);
        assert!(bench.settle(&sending[0], ack()));
        bench.commit_one();
    }
}

#[test]
fn others_are_sent_beside_suspects_and_share_no_call_with_them() {
    let mut bench = Bench::new();
    bench.enqueue((0..4).map(|n| keyed(&format!("m{n}"), &format!("k{n}"))).collect());
    bench.crash();
    bench.commit();
    assert_eq!(bench.take(10).len(), 4);
    bench.crash();
    assert_eq!(bench.owner.record().suspicion.suspects.len(), 4);
    bench.enqueue((4..8).map(|n| message(&format!("m{n}"))).chain([keyed("behind", "k0")]).collect());
    let mut calls = Vec::new();
    loop {
        let sending = bench.take(10);
        if sending.is_empty() {
            break;
        }
        calls.push(sending.iter().map(name).collect::<Vec<_>>());
    }
    // Half of the suspects, then everything else but what waits behind one of the same key.
    assert_eq!(calls, [vec!["m0", "m1"], vec!["m4", "m5", "m6", "m7"]]);
    assert_eq!(bench.owner.waiting_suspects(), 2);
}

#[test]
fn what_settles_is_cleared_whatever_its_fate_and_the_other_half_follows() {
    let mut bench = Bench::new();
    bench.enqueue(names(6).iter().map(|name| message(name)).collect());
    bench.crash();
    bench.commit();
    assert_eq!(bench.take(10).len(), 6);
    bench.crash();
    bench.commit();
    let first = bench.take(10);
    assert_eq!(first.len(), 3);
    let retry = bench.retry_in(10);
    for (one, verdict) in first.iter().zip([ack(), retry, dead()]) {
        assert!(bench.settle(one, verdict));
    }
    bench.commit();
    assert_eq!(bench.owner.record().suspicion.suspects.len(), 3);
    let second = bench.take(10);
    assert_eq!(second.len(), 3, "all of the other half at once");
    assert!(bench.settle(&second[0], Verdict::Release { due: None }));
    bench.commit();
    assert_eq!(bench.owner.record().suspicion.suspects.len(), 3, "who wasn't tried isn't cleared");
    assert_eq!(bench.take(10).len(), 1);
}

#[test]
fn a_lost_lease_a_drain_and_a_clean_end_are_no_crash() {
    let mut bench = Bench::new();
    bench.enqueue(names(4).iter().map(|name| message(name)).collect());
    for _ in 0..20 {
        assert_eq!(bench.take(10).len(), 4);
        bench.lose();
        bench.commit();
    }
    assert!(bench.owner.record().suspicion.is_empty());
    // A drain whose time is over while calls are under way.
    assert_eq!(bench.take(2).len(), 2);
    bench.owner.begin_release(bench.now());
    bench.commit();
    assert!(!bench.owner.is_released());
    bench.crash();
    bench.commit();
    assert!(bench.owner.record().suspicion.is_empty() && !bench.owner.is_cautious());
    bench.owner.begin_release(bench.now());
    bench.commit();
    assert!(bench.owner.is_released());
    bench.crash();
    assert!(bench.owner.record().suspicion.is_empty() && !bench.owner.is_cautious());
    assert_eq!(bench.take_names(10).len(), 0, "it has to be claimed anew");
    bench.commit();
    assert_eq!(bench.take_names(10).len(), 4);
}

#[test]
fn a_lost_lease_keeps_suspects_and_blames_nobody_new() {
    let mut bench = Bench::new();
    bench.enqueue(names(4).iter().map(|name| message(name)).collect());
    bench.crash();
    bench.commit();
    assert_eq!(bench.take(10).len(), 4);
    bench.crash();
    let suspects = bench.owner.record().suspicion.suspects.clone();
    for _ in 0..10 {
        bench.enqueue(vec![message("more")]);
        while !bench.take(10).is_empty() {}
        bench.lose();
        assert_eq!(bench.owner.record().suspicion.suspects, suspects);
        assert!(bench.owner.record().suspicion.calling.is_empty());
    }
}

#[test]
fn killing_the_host_often_convicts_nobody_and_stops_nothing() {
    let mut bench = Bench::new();
    // Its call takes longer than any of these hosts lives.
    bench.enqueue(vec![message("slow")]);
    let mut delivered = 0;
    for life in 0..60 {
        bench.enqueue((0..3).map(|n| keyed(&format!("{life}-{n}"), &format!("k{n}"))).collect());
        for _ in 0..4 {
            bench.pass_time(LIFE / 5);
            bench.commit();
            let sending = bench.take(50);
            for one in sending.iter().filter(|one| name(one) != "slow") {
                assert!(bench.settle(one, ack()));
                delivered += 1;
            }
            bench.commit();
        }
        bench.crash();
    }
    assert!(bench.dead().is_empty(), "{:?}", bench.dead());
    assert!(delivered > 150, "only {delivered} of 180 were delivered meanwhile");
}

#[test]
fn caution_ends_and_is_doubled_by_another_crash() {
    let mut bench = Bench::new();
    for (crash, seconds) in [(1_u32, 60_u64), (2, 120), (3, 240)] {
        bench.crash();
        assert_eq!(bench.owner.record().suspicion.unclean, crash);
        bench.enqueue(vec![message("one")]);
        for one in bench.take(10) {
            assert!(bench.settle(&one, ack()));
        }
        for _ in 0..seconds - 1 {
            bench.pass_time(1_000);
            bench.commit();
            assert!(bench.owner.is_cautious());
        }
        bench.pass_time(1_000);
        bench.commit();
        assert!(!bench.owner.is_cautious());
        let suspicion = bench.owner.record().suspicion.clone();
        assert_eq!(suspicion, Suspicion { unclean: crash, ..Suspicion::default() });
    }
    for _ in 0..24 * 60 {
        bench.pass_time(60_000);
        bench.commit();
    }
    assert!(bench.owner.record().suspicion.is_empty(), "a day of clean running forgets it");
}

#[test]
fn a_suspect_is_tried_by_itself_only_after_its_owner_has_lived_a_while_without_it() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    bench.crash();
    bench.commit();
    assert_eq!(bench.take(1).len(), 1);
    for alone in 0..3_u32 {
        bench.crash();
        let seq = *bench.owner.record().suspicion.suspects.keys().next().unwrap();
        assert_eq!(bench.owner.record().suspicion.suspects[&seq], Suspect { crashes: 1 + alone, alone });
        let quiet = 1_000 * 4_u64.pow(alone);
        bench.pass_time(quiet - 1);
        bench.commit();
        assert!(bench.take(1).is_empty());
        bench.pass_time(1);
        bench.commit();
        assert_eq!(bench.take(1).len(), 1);
        assert_eq!(bench.owner.record().suspicion.alone, Some(seq));
    }
    bench.crash();
    assert_eq!(bench.dead().len(), 1);
}

#[test]
fn one_shard_of_a_process_has_a_suspect_on_trial_by_itself_at_a_time() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    bench.crash();
    bench.commit();
    assert_eq!(bench.take(1).len(), 1);
    bench.crash();
    bench.owner.set_trial_elsewhere(true);
    bench.pass_time(LONG);
    bench.commit();
    assert!(bench.take(1).is_empty() && !bench.owner.has_lone_trial());
    bench.owner.set_trial_elsewhere(false);
    bench.commit();
    assert!(bench.take(1).len() == 1 && bench.owner.has_lone_trial());
}

/// Hosts that live so many seconds each, and a receiver that answers no call within 30 s. Every call that a host doesn't live to
/// hear of fails then, to be tried again. Who is held for poison at the end.
fn killed_after(lives: impl IntoIterator<Item = u64>, messages: usize) -> Vec<String> {
    const STEP: u64 = 500;
    let mut bench = Bench::new();
    bench.enqueue(names(messages).iter().map(|name| message(name)).collect());
    for life in lives {
        let mut calls: Vec<(u64, Sending)> = Vec::new();
        for _ in 0..life * 1_000 / STEP {
            bench.pass_time(STEP);
            bench.commit();
            let at = bench.at;
            calls.extend(bench.take(10).into_iter().map(|one| (at, one)));
            let (over, under_way) = calls.into_iter().partition(|(began, _)| at - began >= 30_000);
            calls = under_way;
            for (_, one) in over {
                let retry = bench.retry_in(100);
                assert!(bench.settle(&one, retry));
            }
            bench.commit();
        }
        bench.crash();
    }
    bench.dead().iter().map(|dead| dead.message.annotation(Annotation::CorrelationId).unwrap().to_owned()).collect()
}

#[test]
fn killing_the_host_every_so_often_while_its_receiver_hangs_convicts_nobody() {
    for life in [5, 8, 16, 20, 25, 30, 35] {
        for messages in [1, 2, 5] {
            assert_eq!(killed_after([life; 40], messages), [""; 0], "lives of {life} s, {messages} messages");
        }
    }
}

#[test]
fn killing_the_host_at_random_while_its_receiver_hangs_convicts_nobody() {
    for seed in 1..=8_u64 {
        let mut state = seed;
        let lives = std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            [5, 20, 30][usize::try_from((state >> 33) % 3).unwrap()]
        });
        for messages in [1, 3] {
            let convicted = killed_after(lives.take(100), messages);
            assert_eq!(convicted, [""; 0], "seed {seed}, {messages} messages");
        }
    }
}

#[test]
fn a_poison_is_convicted_at_the_third_death_of_its_own_though_hosts_before_were_killed_often() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("poison")]);
    // Killed from outside while it was in its call: it is the only suspect.
    for _ in 0..2 {
        bench.pass_time(1);
        bench.commit();
        assert_eq!(bench.take(1).len(), 1);
        for _ in 0..19 {
            bench.pass_time(1_000);
            bench.commit();
        }
        bench.crash();
    }
    let mut deaths = 0;
    while bench.dead().is_empty() {
        let mut waited = 0;
        while bench.take(1).is_empty() {
            assert!(waited < 600, "it is on trial within ten minutes");
            waited += 1;
            bench.pass_time(1_000);
            bench.commit();
        }
        deaths += 1;
        let longest = bench.owner.record().suspicion.longest_life;
        let quiet = if deaths == 1 { Duration::from_secs(1) } else { longest * 2 };
        assert!(Duration::from_secs(waited) >= quiet, "{deaths}: after {waited} s, lives of {longest:?}");
        bench.crash();
    }
    assert_eq!(deaths, 3);
}

#[test]
fn an_owner_with_a_lone_trial_says_every_second_how_long_it_lives() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    bench.crash();
    bench.commit();
    assert_eq!(bench.take(1).len(), 1);
    bench.crash();
    for second in 1..=12_u64 {
        bench.pass_time(1_000);
        bench.commit();
        assert_eq!(bench.take(1).len(), usize::from(second == 1));
        assert_eq!(bench.owner.record().suspicion.lived, Duration::from_secs(second));
    }
}

#[test]
fn a_cautious_owner_that_gives_its_shard_back_commits_that_once_and_says_no_life() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    bench.crash();
    bench.pass_time(700);
    bench.commit();
    assert_eq!(bench.owner.record().suspicion.lived, Duration::from_millis(700));
    bench.owner.begin_release(bench.now());
    bench.commit();
    assert!(bench.owner.is_released());
    assert_eq!(bench.owner.record().suspicion.lived, Duration::ZERO);
    assert!(bench.build().commit.is_none(), "the same record is written again and again");
}
