//! What a round sees: what the owners of this host's shards have in memory, the feed of changes, and dead letters as readiness
//! counts them. An owner that doesn't answer leaves what it knows as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use waybill_api::sagas::SagaService;
use waybill_core::alert::{
    AlertSettings, FALLBACK_KEY, Incidents, KEY, Level, Observation, Observations, Rule, TENANT, Target, falling,
    rising,
};
use waybill_core::changes::{CHANGES_MAX, ChangeKind, KeptChange};
use waybill_core::ids::Tenant;
use waybill_core::outbox::owner::{HeldKey, HoldInfo, WaitKind};
use waybill_core::port::disk::Disk;
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;

use crate::live::Live;
use crate::service::Outbox;
use crate::shard::{Blocked, OwnerQuery};

/// Who doesn't answer within this isn't waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Held keys that are looked at of each shard, for that of alerts.
const KEYS_MAX: usize = 1_000;
/// A plugin counts as rolled back for so long: longer than it has to last.
const ROLLED_BACK_FOR: Duration = Duration::from_secs(600);
/// Open incidents that a message names.
const NAMED_MAX: usize = 10;
const MIB: u64 = 1 << 20;

/// What one round saw.
pub(super) struct Round {
    pub seen: Observations,
    /// Why alerts don't get through to their transport, if they don't.
    pub held: Option<String>,
    pub is_fallback_held: bool,
    /// Alerts that are dead letters; none = it isn't known.
    pub dead: Option<u64>,
}

impl Round {
    /// All of a rule was seen: only what is found of it isn't well.
    fn know(&mut self, rule: Rule, found: impl IntoIterator<Item = (String, Level, String)>) {
        self.seen.known.insert(rule);
        let found = found.into_iter().map(|(subject, level, detail)| Observation { rule, subject, level, detail });
        self.seen.found.extend(found);
    }
}

pub(super) async fn see(outbox: &Outbox, settings: &AlertSettings, incidents: &Incidents) -> Round {
    let now = outbox.context.clock.now().wall;
    let seen = Observations { now, ..Observations::default() };
    let mut round = Round { seen, held: None, is_fallback_held: false, dead: None };
    if outbox.shards.iter().any(|shard| shard.is_owned()) {
        dead_letters(outbox, settings, &mut round).await;
        oldest(outbox, settings, &mut round).await;
        blocked(outbox, settings, incidents, &mut round).await;
        stuck(outbox, settings, &mut round);
    }
    rolled_back(outbox, settings, &mut round);
    disk(outbox, settings, &mut round).await;
    lags(outbox, settings, &mut round).await;
    round
}

/// Alerts themselves don't count: a dead one would make the next.
async fn dead_letters(outbox: &Outbox, settings: &AlertSettings, round: &mut Round) {
    let Ok(Ok((depths, received))) = timeout(ANSWER_TIMEOUT, outbox.dead_counts()).await else { return };
    let owned: BTreeSet<_> = outbox.shards.iter().filter(|shard| shard.is_owned()).map(|shard| shard.shard).collect();
    let (mut count, mut alerts) = (received, 0);
    for depth in depths.of.iter().filter(|depth| owned.contains(&depth.shard)) {
        match depth.tenant == TENANT {
            true => alerts += depth.dead,
            false => count += depth.dead,
        }
    }
    round.dead = Some(alerts);
    let found = settings.bounds.dead.map(|at| {
        let is_more = depths.dead_since.is_some();
        let level = if is_more { Level::Past } else { rising(count, at) };
        let at_least = if is_more { "at least " } else { "" };
        (String::new(), level, format!("{at_least}{count} dead letters, the alert is at {at}"))
    });
    round.know(Rule::DeadLetters, found);
}

/// Of each transport: how long its oldest message has been ready.
async fn oldest(outbox: &Outbox, settings: &AlertSettings, round: &mut Round) {
    let asked = owned(outbox, |reply| OwnerQuery::Depths { reply }).await;
    let Some(answers) = asked else { return };
    let live = outbox.context.live();
    let mut since: BTreeMap<String, UnixMillis> = BTreeMap::new();
    for ((tenant, transport), depth) in answers.into_iter().flatten() {
        let Some(ready) = depth.oldest_ready.filter(|_| tenant.as_str() != TENANT) else { continue };
        let name = transport.and_then(|id| live.routing.name(id)).unwrap_or_default();
        let oldest = since.entry(name.to_owned()).or_insert(ready);
        *oldest = ready.min(*oldest);
    }
    let now = round.seen.now;
    let found = settings.bounds.oldest.into_iter().flat_map(|at| {
        since.iter().map(move |(transport, ready)| {
            let age = now.since(*ready);
            let detail = format!("the oldest message has been ready for {} s, the alert is at {at:?}", age.as_secs());
            (transport.clone(), rising(millis(age), millis(at)), detail)
        })
    });
    round.know(Rule::OldestMessage, found);
}

/// Transports that are held, plugins whose instances keep failing, and whether alerts themselves get through.
async fn blocked(outbox: &Outbox, settings: &AlertSettings, incidents: &Incidents, round: &mut Round) {
    let asked = owned(outbox, |reply| OwnerQuery::Blocked { keys_max: KEYS_MAX, reply }).await;
    let Some(answers) = asked else { return };
    let live = outbox.context.live();
    let mut held: BTreeMap<String, String> = if settings.bounds.breaker { failing(outbox) } else { BTreeMap::new() };
    for hold in answers.iter().flat_map(|answer| &answer.holds) {
        let name = hold.key.transport.and_then(|id| live.routing.name(id));
        if let Some(name) = name.filter(|_| settings.bounds.breaker && hold.kind() == WaitKind::Transport) {
            held.entry(name.to_owned()).or_insert_with(|| format!("{}: {}", hold.code, hold.reason));
        }
    }
    round.know(Rule::BreakerOpen, held.into_iter().map(|(name, detail)| (name, Level::Past, detail)));
    round.held = held_back(&live, &answers, &settings.to, KEY);
    let fallback = settings.fallback.as_ref();
    round.is_fallback_held =
        fallback.is_some_and(|fallback| held_back(&live, &answers, fallback, FALLBACK_KEY).is_some());
    let reason = round.held.clone().filter(|_| fallback.is_some());
    let waiting = reason.map(|reason| {
        let open = incidents.open().filter(|incident| incident.rule != Rule::AlertsHeld).take(NAMED_MAX);
        let open: Vec<&str> = open.map(|incident| incident.rule.title()).collect();
        let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
        (settings.to.transport.clone(), Level::Past, format!("{reason}; incidents that are open: {open}"))
    });
    round.know(Rule::AlertsHeld, waiting);
}

/// Plugins of which instances kept failing last, with why. What happens again within a minute is one change, so the last time counts.
fn failing(outbox: &Outbox) -> BTreeMap<String, String> {
    let is_breaker = |kind: ChangeKind| matches!(kind, ChangeKind::BreakerOpened | ChangeKind::BreakerClosed);
    let (_, kept) = outbox.context.config.changes.latest(None, CHANGES_MAX, |change| is_breaker(change.kind));
    let mut last: BTreeMap<String, KeptChange> = BTreeMap::new();
    for kept in kept {
        let known = last.get(&kept.change.object).map(|known| known.last_at);
        let is_later = known.is_none_or(|known| {
            kept.last_at > known || (kept.last_at == known && kept.change.kind == ChangeKind::BreakerClosed)
        });
        if is_later {
            last.insert(kept.change.object.clone(), kept);
        }
    }
    let open = last.into_iter().filter(|(_, kept)| kept.change.kind == ChangeKind::BreakerOpened);
    open.map(|(object, kept)| (object, kept.change.detail.unwrap_or_default())).collect()
}

/// Why a message to a target wouldn't be sent now, if so.
fn held_back(live: &Live, answers: &[Blocked], target: &Target, key: &str) -> Option<String> {
    let name = &target.transport;
    let Some((id, _)) = live.find(name) else { return Some(format!("there is no transport {name:?}")) };
    if live.is_paused(id) {
        return Some(format!("transport {name:?} is paused"));
    }
    let topic = Topic::parse(&target.topic).ok();
    let subject = topic.as_ref().map(Topic::subject).unwrap_or_default();
    let tenant = Tenant::new(TENANT).ok()?;
    let is_theirs = |hold: &&HoldInfo| hold.key.takes(&tenant, Some(id), subject);
    let hold = answers.iter().flat_map(|answer| &answer.holds).find(is_theirs);
    if let Some(hold) = hold {
        return Some(format!("transport {name:?}: {}: {}", hold.code, hold.reason));
    }
    let is_key = |held: &&HeldKey| held.tenant.as_str() == TENANT && held.key == key;
    let held = answers.iter().flat_map(|answer| &answer.keys).find(is_key)?;
    let reason = held.reason.as_deref().unwrap_or("it waits for its retry");
    Some(format!("transport {name:?}: an alert that was tried waits: {reason}"))
}

fn stuck(outbox: &Outbox, settings: &AlertSettings, round: &mut Round) {
    let Some(sagas) = &outbox.sagas else { return };
    let count = sagas.saga_stats().stuck;
    let found = settings
        .bounds
        .stuck
        .map(|at| (String::new(), rising(count, at), format!("{count} sagas are stuck, the alert is at {at}")));
    round.know(Rule::SagaStuck, found);
}

/// Of plugins that were rolled back a short while ago: nothing says when that is over.
fn rolled_back(outbox: &Outbox, settings: &AlertSettings, round: &mut Round) {
    let is_it = |kind: ChangeKind| settings.bounds.rollback && kind == ChangeKind::PluginRolledBack;
    let (_, kept) = outbox.context.config.changes.latest(None, CHANGES_MAX, |change| is_it(change.kind));
    let now = round.seen.now;
    let lately = kept.into_iter().filter(|kept| now.since(kept.last_at) < ROLLED_BACK_FOR);
    let by_plugin: BTreeMap<String, String> =
        lately.map(|kept| (kept.change.object, kept.change.detail.unwrap_or_default())).collect();
    round.know(Rule::PluginRolledBack, by_plugin.into_iter().map(|(name, detail)| (name, Level::Past, detail)));
}

async fn disk(outbox: &Outbox, settings: &AlertSettings, round: &mut Round) {
    let (Some(disk), Some(at)) = (outbox.context.config.disk.clone(), settings.bounds.disk_free) else {
        return round.know(Rule::DiskLow, None);
    };
    let looked = with_disk(disk, move |disk| {
        let free = disk.free_bytes()?;
        let level = falling(free, at);
        if level == Level::Within
            && let Err(error) = disk.keep_reserve()
        {
            tracing::warn!(%error, "nothing can be kept back on the store's disk for the alert of a full one");
        }
        Ok((free, level))
    });
    if let Some((free, level)) = looked.await {
        let detail = format!("{} MiB of the store's disk are left, the alert is below {} MiB", free / MIB, at / MIB);
        round.know(Rule::DiskLow, Some((String::new(), level, detail)));
    }
}

/// Makes room for the alert of a full disk.
pub(super) async fn give_reserve(outbox: &Outbox) {
    if let Some(disk) = outbox.context.config.disk.clone() {
        with_disk(disk, |disk| disk.give_reserve()).await;
    }
}

/// Does something with the disk where it holds up nobody else; none = it couldn't.
async fn with_disk<T: Send + 'static>(
    disk: Arc<dyn Disk>,
    act: impl FnOnce(&dyn Disk) -> std::io::Result<T> + Send + 'static,
) -> Option<T> {
    match tokio::task::spawn_blocking(move || act(disk.as_ref())).await {
        Ok(Ok(done)) => Some(done),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the disk of the store can't be looked at for alerts");
            None
        }
        // It ends with the host.
        Err(_ended) => None,
    }
}

async fn lags(outbox: &Outbox, settings: &AlertSettings, round: &mut Round) {
    if let Some(streams) = &outbox.streams
        && let Ok(lags) = timeout(ANSWER_TIMEOUT, streams.relay_lags()).await
    {
        let found = settings.bounds.relay_lag.into_iter().flat_map(|at| {
            lags.iter().map(move |(relay, events, lag)| {
                let detail = format!("{events} events behind, for {} s; the alert is at {at:?}", lag.as_secs());
                (relay.to_string(), rising(millis(*lag), millis(at)), detail)
            })
        });
        round.know(Rule::RelayLag, found);
    }
    if let Some(inbox) = &outbox.inbox {
        let lags = inbox.lags();
        let found = settings.bounds.source_lag.into_iter().flat_map(|at| {
            lags.iter().map(move |(source, lag)| {
                let detail = format!("{lag} messages wait at its peer, the alert is at {at}");
                (source.clone(), rising(*lag, at), detail)
            })
        });
        round.know(Rule::SourceLag, found);
    }
}

/// Asks the owners of this host's shards; none = one of them doesn't answer.
async fn owned<T>(outbox: &Outbox, ask: impl Fn(oneshot::Sender<T>) -> OwnerQuery) -> Option<Vec<T>> {
    let asked = outbox.shards.iter().filter(|shard| shard.is_owned()).map(|shard| shard.query(&ask));
    let answers = timeout(ANSWER_TIMEOUT, futures::future::join_all(asked)).await.ok()?;
    answers.into_iter().collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
