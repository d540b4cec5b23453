//! Two hosts on one store, each of which numbers the streams of its shards.

use std::time::Duration;

use waybill_core::ids::ShardId;
use waybill_core::port::service::streams::{Appended, Start, Subscribed};
use waybill_core::streams::reading::Selector;
use waybill_engine::EngineConfig;

use crate::support::*;

const SHARDS: u16 = 4;
const APPENDS: usize = 25;

fn shared(config: &mut EngineConfig) {
    (config.exclusive, config.owner_ttl, config.shards) = (false, Duration::from_secs(4), SHARDS);
}

/// How many shards a host owns, as the store has it.
fn owned(world: &World, host: &str) -> usize {
    world.memory.read(|tables| tables.shards.values().filter(|record| record.owner == host).count())
}

/// A stream of each shard.
fn streams() -> Vec<String> {
    let of = |shard: u16| {
        let mut names = (0..).map(|number| format!("task.{number}"));
        names.find(|stream| key(stream).shard(SHARDS) == ShardId(shard)).unwrap()
    };
    (0..SHARDS).map(of).collect()
}

/// Two hosts with two shards each: the first gives two of its own away, and the second takes them.
async fn two_owners(world: &World) -> (Host, Host) {
    let first = world.launch("first", shared);
    eventually("the first has all", async || owned(world, "first") == usize::from(SHARDS)).await;
    let second = world.launch("second", shared);
    eventually("the second has two", async || {
        world.memory.write(|tables| {
            let given = [ShardId(1), ShardId(3)];
            let records =
                tables.shards.iter_mut().filter(|(shard, record)| given.contains(shard) && record.owner == "first");
            records.for_each(|(_, record)| record.released = true);
        });
        owned(world, "second") == 2
    })
    .await;
    (first, second)
}

#[tokio::test(start_paused = true)]
async fn readers_at_either_of_two_owners_have_every_event_of_both_once_by_the_feed() {
    let world = World::with(|settings| settings.events.replay.events = 10);
    let (first, second) = two_owners(&world).await;
    let streams = streams();
    let names: Vec<&str> = streams.iter().map(String::as_str).collect();
    for stream in &names {
        // At the host that owns it as at the one that doesn't.
        first.append(stream, &[&format!("stored.{stream}-0"), &format!("stored.{stream}-1")]).await;
        second.append(stream, &[&format!("stored.{stream}-2")]).await;
    }
    let mut readers = Vec::new();
    for host in [&first, &second] {
        for what in [
            named(&names),
            prefix("task."),
            Subscribed::Many(Selector::Resource { resource_type: "TASK".into(), id_prefix: String::new() }),
        ] {
            readers.push(host.subscribe(what, Start::Earliest).await);
        }
    }
    let mut taken = Vec::new();
    for reader in &mut readers {
        taken.push(reader.take(names.len() * 3).await);
    }
    for number in 0..APPENDS {
        let host = if number % 2 == 0 { &first } else { &second };
        for stream in &names {
            host.append(stream, &[&format!("live.{stream}-{number}")]).await;
        }
    }
    for (reader, taken) in readers.iter_mut().zip(&mut taken) {
        taken.extend(reader.take(names.len() * APPENDS).await);
        for stream in &names {
            let numbers: Vec<u64> = taken.iter().filter(|taken| taken.0 == *stream).map(|taken| taken.1).collect();
            assert_eq!(numbers, (1..=3 + APPENDS as u64).collect::<Vec<_>>(), "{stream}");
        }
    }
    assert_eq!((owned(&world, "first"), owned(&world, "second")), (2, 2), "there were two owners all the time");
}

#[tokio::test(start_paused = true)]
async fn readers_go_on_over_the_death_of_one_of_two_owners() {
    let world = World::new();
    let (first, second) = two_owners(&world).await;
    let streams = streams();
    let names: Vec<&str> = streams.iter().map(String::as_str).collect();
    let mut reader = first.subscribe(prefix("task."), Start::Earliest).await;
    for stream in &names {
        second.append(stream, &[&format!("before.{stream}-0")]).await;
    }
    let mut taken = reader.take(names.len()).await;
    second.crash().await;
    eventually("the first has all again", async || owned(&world, "first") == usize::from(SHARDS)).await;
    for stream in &names {
        eventually("it is numbered", async || {
            let appended = first.try_append(stream, &[&format!("after.{stream}-0")], None).await;
            matches!(appended, Ok(Appended::Numbered { seqs, .. }) if seqs == [2])
        })
        .await;
    }
    taken.extend(reader.take(names.len()).await);
    for stream in &names {
        let numbers: Vec<u64> = taken.iter().filter(|taken| taken.0 == *stream).map(|taken| taken.1).collect();
        assert_eq!(numbers, [1, 2], "{stream}");
    }
}
