//! Well-behaved source: brings the numbers from 1 on, `amount` in all, each again until it is acknowledged, and never more at once than
//! its window, and none up to the position it resumes after; a nack puts it back, what is rejected is `failed`, and an `extend` traps. After `quiesce` a tick says what is still out.
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use guests::{CallInfo, Config, OpenArgs, Opened, PluginError};
use waybill_plugin::source::{Delivery, Disposition, Notices, Pulled, Settled, Settlement, Source, SourceArgs};

waybill_plugin::manifest!("manifests/source.toml");
waybill_plugin::export_source!(Fixture);

struct Fixture {
    window: usize,
    quiet: Cell<bool>,
    waiting: RefCell<BTreeSet<u64>>,
    out: RefCell<BTreeSet<u64>>,
}

impl Source for Fixture {
    type Config = Config;
    async fn open(
        _: &CallInfo,
        _: &OpenArgs,
        wants: &SourceArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let resumed = wants.attributes.iter().find(|(name, _)| name == "resume-after");
        let first = resumed.and_then(|(_, position)| position.parse::<u64>().ok()).map_or(1, |position| position + 1);
        let waiting = RefCell::new((first..=config.amount as u64).collect());
        let features = vec!["nack".to_owned(), "ordered-groups".to_owned()];
        let source = Self { window: wants.window as usize, quiet: Cell::new(false), waiting, out: RefCell::default() };
        Ok((source, Opened { features, tick_every: Some(100), ..Opened::new() }))
    }
    async fn pull(&self, _: &CallInfo, max: u32, _: u32, wait: u32) -> Result<Pulled, PluginError> {
        let mut deliveries = Vec::new();
        let room = self.window.saturating_sub(self.out.borrow().len()).min(max as usize);
        while deliveries.len() < room {
            let Some(number) = self.waiting.borrow_mut().pop_first() else { break };
            self.out.borrow_mut().insert(number);
            let delivery = Delivery::new(number.to_be_bytes(), "numbers", number.to_string());
            deliveries.push(delivery.with_position(number.to_string()).with_id(format!("n-{number}")));
        }
        if deliveries.is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(u64::from(wait)));
        }
        Ok(Pulled::new(deliveries))
    }
    async fn settle(&self, _: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        let settle = |item: &Settlement| {
            let number = item.token.as_slice().try_into().map(u64::from_be_bytes).unwrap_or(0);
            if !self.out.borrow_mut().remove(&number) {
                return Settled::Lost;
            }
            match &item.disposition {
                Disposition::Ack => Settled::Done,
                Disposition::Nack(_) | Disposition::Release => {
                    self.waiting.borrow_mut().insert(number);
                    Settled::Done
                }
                Disposition::Reject(_) => Settled::unsupported(),
                Disposition::Extend => panic!("as told"),
            }
        };
        Ok(items.iter().map(settle).collect())
    }
    async fn tick(&self, _: &CallInfo) -> Result<Notices, PluginError> {
        let out = self.out.borrow().len();
        Ok(if self.quiet.get() { Notices::new().with_attribute("out", out.to_string()) } else { Notices::new() })
    }
    async fn quiesce(&self, _: &CallInfo) -> Result<(), PluginError> {
        self.quiet.set(true);
        Ok(())
    }
}
