//! The suite of tables that are published directly: what a claim has, and what becomes of it when it is given back.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use waybill_core::port::table::{Claimed, Ended, Found, Table, TableClaim, TableRow};
use waybill_core::port::transport::Health;
use waybill_sandbox::{LoadedPlugin, PluginSource, Sandbox, SandboxError, WasmTable, World};

use crate::Options;
use crate::case::{Case, CaseRow, Head};
use crate::endpoint::{call_failed, case_for, config_empty, outside, refused, spec};
use crate::limits::{CALL_TIMEOUT, CLOSE_TIMEOUT};
use crate::outside::Outside;
use crate::report::{Report, Verdict};
use crate::sample;
use crate::suite::{CaseResult, Suite, failed, hindrance, not_applicable, not_run};

/// Claims open at once in one instance.
const CLAIMS: u32 = 2;
/// What a claim of the suite asks for.
const BATCH: u32 = 100;
/// How long the database bears a claim without a statement.
const IDLE: Duration = Duration::from_secs(60);

pub(crate) async fn run(sandbox: &Sandbox, source: &PluginSource, options: &Options) -> Result<Report, SandboxError> {
    let plugin = sandbox.load(source.clone(), World::Table).await?;
    let mut suite = Suite::new(plugin.inspection(), &options.cases);
    let described = options.cases.iter().any(|case| !case.rows.is_empty());
    let case = case_for(options, |case| !case.rows.is_empty());
    config_empty(&mut suite, &plugin, opens_empty(&plugin, &case)).await;
    let work = async {
        opens(&plugin, &case).await.map_err(|verdict| match described {
            true => verdict,
            false => not_run("no case: add tests/table.toml with an external [peer] and [[row]]"),
        })
    };
    suite.check("opens", "it opens, says it is well, and counts", work).await;
    if !options.smoke {
        let hindrance = suite.last().and_then(hindrance);
        suite.hold(hindrance);
        let promise = "a claim that is given back leaves its rows as they were, in the same order";
        suite.check("given-back", promise, given_back(&plugin, &case)).await;
        suite.check("held", "what is held is left out, and nothing else", held(&plugin, &case)).await;
        suite.check("batch", "a claim has no more rows than it may", batch_of_one(&plugin, &case)).await;
        let promise = "what another claim has locked isn't locked by a second one";
        suite.check("locked-once", promise, locked_once(&plugin, &case)).await;
        suite.hold(None);
    }
    for case in options.cases.iter().filter(|case| !case.rows.is_empty()) {
        let name = format!("case: {}", case.head.name);
        suite.check(&name, "what the author expects", author(&plugin, case)).await;
    }
    Ok(suite.done())
}

async fn opens_empty(plugin: &LoadedPlugin, case: &Case) -> Result<(), SandboxError> {
    let empty = Case { head: Head { config: json!({}), ..case.head.clone() }, ..Case::default() };
    let spec = spec(plugin, &empty, "127.0.0.1:9");
    let (table, opened) = WasmTable::start_supervised(plugin.clone(), spec, CLAIMS).await?;
    table.close(CLOSE_TIMEOUT).await;
    opened
}

async fn start(plugin: &LoadedPlugin, case: &Case) -> Result<(Arc<WasmTable>, Outside), Verdict> {
    let outside = outside(case).await?;
    let spec = spec(plugin, case, &outside.address());
    let (table, opened) = WasmTable::start_supervised(plugin.clone(), spec, CLAIMS).await.map_err(refused)?;
    opened.map_err(refused)?;
    Ok((table, outside))
}

async fn claim(table: &WasmTable, batch: u32, held: Vec<String>) -> Result<Claimed, Verdict> {
    let order = TableClaim {
        lane: 0,
        lanes: 1,
        batch,
        batch_bytes: 1 << 20,
        window: BATCH,
        held,
        without_lock: true,
        idle: IDLE,
    };
    table.claim(0, order, CALL_TIMEOUT).await.map_err(|error| call_failed(&error))
}

/// Ends a claim without marks.
async fn give_back(table: &WasmTable, claimed: &Claimed) -> Result<(), Verdict> {
    let Some(id) = claimed.claim else { return Ok(()) };
    match table.commit(0, id, Vec::new(), CALL_TIMEOUT).await.map_err(|error| call_failed(&error))? {
        Ended::Committed => Ok(()),
        Ended::Refused(fault) | Ended::Lost(fault) => Err(failed(
            format!("a claim couldn't be given back: {}", sample::describe(&fault)),
            "a commit without marks ends the transaction, and answers `committed`",
        )),
    }
}

/// The rows that a claim has locked, with their aggregates.
fn locked(claimed: &Claimed) -> Vec<(&str, &TableRow)> {
    let mut rows = Vec::new();
    for row in &claimed.rows {
        if let Found::Locked(locked) = &row.found {
            rows.push((row.aggregate.as_str(), locked));
        }
    }
    rows
}

fn ids(claimed: &Claimed) -> Vec<&str> {
    locked(claimed).into_iter().map(|(_, row)| row.id.as_str()).collect()
}

async fn opens(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (table, _outside) = start(plugin, case).await?;
    let report = table.health().await;
    let stats = table.stats(CALL_TIMEOUT).await.map_err(|error| call_failed(&error))?;
    table.close(CLOSE_TIMEOUT).await;
    if report.health == Health::Down {
        return Err(failed(
            format!("health says down: {}", report.detail.unwrap_or_default()),
            "answer `ready` or `degraded` while it serves",
        ));
    }
    let waiting: u64 = stats.iter().map(|stats| u64::from(stats.waiting)).sum();
    Ok(format!("{waiting} rows wait, in {} contexts", stats.len()))
}

async fn given_back(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (table, _outside) = start(plugin, case).await?;
    let first = claim(&table, BATCH, Vec::new()).await?;
    give_back(&table, &first).await?;
    let second = claim(&table, BATCH, Vec::new()).await?;
    give_back(&table, &second).await?;
    table.close(CLOSE_TIMEOUT).await;
    if ids(&first) != ids(&second) {
        let reason = format!("rows {:?} at first, {:?} after they were given back", ids(&first), ids(&second));
        return Err(failed(reason, "order by what never changes in a row's life, and mark nothing in `claim`"));
    }
    Ok(format!("{} rows, twice", locked(&first).len()))
}

async fn held(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (table, _outside) = start(plugin, case).await?;
    let all = claim(&table, BATCH, Vec::new()).await?;
    give_back(&table, &all).await?;
    let Some((aggregate, _)) = locked(&all).first().copied() else {
        return Err(not_applicable("nothing waits in the table"));
    };
    let rest = claim(&table, BATCH, vec![aggregate.to_owned()]).await?;
    give_back(&table, &rest).await?;
    table.close(CLOSE_TIMEOUT).await;
    let wanted: Vec<&str> =
        locked(&all).into_iter().filter(|(other, _)| *other != aggregate).map(|(_, row)| row.id.as_str()).collect();
    if ids(&rest) != wanted {
        let reason = format!("without {aggregate:?} it locked {:?}, and not {wanted:?}", ids(&rest));
        return Err(failed(
            reason,
            "leave out the aggregates of `held`, by the same text as in `claimed-row.aggregate`",
        ));
    }
    Ok(format!("{aggregate:?} left out, {} rows locked", wanted.len()))
}

async fn batch_of_one(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (table, _outside) = start(plugin, case).await?;
    // More ends the call as a breach of the contract.
    let claimed = claim(&table, 1, Vec::new()).await?;
    give_back(&table, &claimed).await?;
    table.close(CLOSE_TIMEOUT).await;
    Ok(format!("{} of {} that wait", claimed.rows.len(), claimed.seen))
}

async fn locked_once(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (table, _outside) = start(plugin, case).await?;
    if table.facts().claims_per_instance < 2 {
        return Err(not_applicable("it holds one claim at a time"));
    }
    let first = claim(&table, BATCH, Vec::new()).await?;
    let second = claim(&table, BATCH, Vec::new()).await?;
    give_back(&table, &second).await?;
    give_back(&table, &first).await?;
    table.close(CLOSE_TIMEOUT).await;
    let (mine, theirs) = (ids(&first), ids(&second));
    match theirs.iter().find(|id| mine.contains(*id)) {
        Some(id) => Err(failed(
            format!("row {id} was locked by two claims at once"),
            "lock each row of a claim (`FOR UPDATE SKIP LOCKED`), each claim in a transaction of its own",
        )),
        None => Ok(format!("{} and {} rows", mine.len(), theirs.len())),
    }
}

async fn author(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (table, _outside) = start(plugin, case).await?;
    let claimed = claim(&table, BATCH, Vec::new()).await?;
    give_back(&table, &claimed).await?;
    table.close(CLOSE_TIMEOUT).await;
    let found = locked(&claimed);
    if found.len() != case.rows.len() {
        let reason = format!("{} rows expected, {} locked", case.rows.len(), found.len());
        return Err(failed(reason, "correct the plugin, or the case if it expects the wrong thing"));
    }
    for ((number, expected), (aggregate, row)) in (1..).zip(&case.rows).zip(found) {
        if !fits(expected, aggregate, row) {
            let reason = format!("row {number}: of aggregate {aggregate:?}, {:?}", row.message);
            return Err(failed(reason, "correct the plugin, or the case if it expects the wrong thing"));
        }
    }
    Ok(format!("{} rows", case.rows.len()))
}

fn fits(expected: &CaseRow, aggregate: &str, row: &TableRow) -> bool {
    let same = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
    let named = match &row.message {
        Ok(message) => {
            expected.code.is_none()
                && same(&expected.id, &message.id)
                && same(&expected.topic, &message.topic)
                && same(&expected.key, message.key.as_deref().unwrap_or_default())
                && expected.payload.as_ref().is_none_or(|payload| payload.as_bytes() == message.payload.as_ref())
        }
        Err(fault) => expected.code.as_ref() == Some(&fault.code),
    };
    named && same(&expected.aggregate, aggregate)
}
