//! Well-behaved table, in memory: the numbers from 1 on, `amount` in all, each its own aggregate but for 1 and 2, which are of one; 3
//! can't be a message. A mark on 4 is refused, one on 5 loses the transaction, and one on 6 traps.
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use guests::{CallInfo, Config, Fault, OpenArgs, Opened, PluginError};
use waybill_plugin::table::{
    Claim, ClaimArgs, Claimed, ClaimedRow, ContextStats, DeadPage, DeadRow, Ended, Fate, Found, Mark, Notices, Row,
    RowMessage, Table, TableArgs, Token,
};

waybill_plugin::manifest!("manifests/table.toml");
waybill_plugin::export_table!(Fixture);

struct Fixture {
    waiting: RefCell<BTreeSet<u64>>,
    failed: RefCell<BTreeMap<u64, String>>,
    claims: Cell<u32>,
    most: u32,
}

fn aggregate(number: u64) -> String {
    if number < 3 { "1-2".to_owned() } else { number.to_string() }
}

fn number(token: &Token) -> u64 {
    token.as_slice().try_into().map(u64::from_be_bytes).unwrap_or(0)
}

fn row(number: u64) -> Row {
    let message = match number {
        3 => Err(Fault::new("INVALID_OUTBOX", "as told")),
        _ => Ok(RowMessage::new(format!("outbox-{number}"), "bus:numbers", number.to_string())),
    };
    Row { token: number.to_be_bytes().to_vec(), id: number.to_string(), attempts: 0, message }
}

impl Fixture {
    fn settle(&self, mark: &Mark) {
        let number = number(&mark.token);
        match &mark.fate {
            Fate::Published => {
                self.waiting.borrow_mut().remove(&number);
            }
            Fate::Again(_) => {}
            Fate::Failed(failed) => {
                self.waiting.borrow_mut().remove(&number);
                self.failed.borrow_mut().insert(number, failed.cause.code.clone());
            }
        }
    }
}

impl Table for Fixture {
    type Config = Config;
    async fn open(
        _: &CallInfo,
        _: &OpenArgs,
        wants: &TableArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let waiting = RefCell::new((1..=config.amount as u64).collect());
        let features = vec!["keeps-due".to_owned()];
        let table = Self { waiting, failed: RefCell::default(), claims: Cell::new(0), most: wants.claims };
        Ok((table, Opened { features, max_concurrent_calls: 4, tick_every: Some(100), ..Opened::new() }))
    }
    async fn claim(&self, _: &CallInfo, args: ClaimArgs) -> Result<Claimed, PluginError> {
        if self.claims.get() >= self.most {
            return Ok(Claimed::refused());
        }
        let waiting = self.waiting.borrow();
        let seen: Vec<u64> = waiting.iter().copied().take(args.window as usize).collect();
        let free = seen.iter().filter(|number| !args.held.contains(&aggregate(**number))).take(args.batch as usize);
        let rows: Vec<ClaimedRow> = free
            .map(|number| ClaimedRow { aggregate: aggregate(*number), found: Found::Locked(row(*number)) })
            .collect();
        if rows.is_empty() {
            return Ok(Claimed::nothing(seen.len() as u32));
        }
        self.claims.set(self.claims.get() + 1);
        Ok(Claimed { seen: seen.len() as u32, ..Claimed::new(Claim(self.claims.get()), rows) })
    }
    async fn commit(&self, _: &CallInfo, _: Claim, marks: Vec<Mark>) -> Result<Ended, PluginError> {
        self.claims.set(self.claims.get().saturating_sub(1));
        let names = |wanted: u64| marks.iter().any(|mark| number(&mark.token) == wanted);
        if names(4) {
            return Ok(Ended::Refused(Fault::new("FIXTURE.REFUSED", "as told")));
        }
        if names(5) {
            return Ok(Ended::Lost(Fault::new("FIXTURE.LOST", "as told").with_maybe_delivered(true)));
        }
        assert!(!names(6), "as told");
        marks.iter().for_each(|mark| self.settle(mark));
        Ok(Ended::Committed)
    }
    async fn stats(&self, _: &CallInfo) -> Result<Vec<ContextStats>, PluginError> {
        let (waiting, dead) = (self.waiting.borrow().len() as u32, self.failed.borrow().len() as u32);
        Ok(vec![ContextStats { context: "numbers".to_owned(), waiting, oldest: Some(1_700_000_000_000), dead }])
    }
    async fn dead(&self, _: &CallInfo, page: Option<String>, max: u32) -> Result<DeadPage, PluginError> {
        let from: u64 = page.and_then(|page| page.parse().ok()).unwrap_or(0);
        let failed = self.failed.borrow();
        let mut after = failed.range(from..);
        let rows = after.by_ref().take(max as usize).map(|(number, error)| DeadRow {
            id: number.to_string(),
            aggregate: aggregate(*number),
            context: None,
            topic: None,
            event_type: None,
            attempts: 1,
            error: error.clone(),
            occurred_at: None,
            failed_at: None,
        });
        let rows = rows.collect();
        Ok(DeadPage { rows, next: after.next().map(|(number, _)| number.to_string()) })
    }
    async fn replay(&self, _: &CallInfo, ids: Vec<String>) -> Result<Vec<bool>, PluginError> {
        let replay = |id: &String| {
            let Ok(number) = id.parse() else { return false };
            self.failed.borrow_mut().remove(&number).is_some() && self.waiting.borrow_mut().insert(number)
        };
        Ok(ids.iter().map(replay).collect())
    }
    async fn tick(&self, _: &CallInfo) -> Result<Notices, PluginError> {
        Ok(if self.waiting.borrow().is_empty() { Notices::new() } else { Notices::waiting() })
    }
}
