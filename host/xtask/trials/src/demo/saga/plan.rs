//! The orders of the demo, and what has to become of each: the words of trouble in them say it beforehand.

use serde_json::{Value, json};

/// Steps of `examples/order-saga/order.toml` in order, and what the shop calls what they ask for.
pub const STEPS: [(&str, &str); 4] =
    [("reserve", "holds"), ("charge", "charges"), ("ship", "shipments"), ("confirm", "confirmations")];

/// What the shop does about one step of an order; `shop.py` has a word for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Fine,
    Refused,
    /// Refused for a while.
    Busy,
    /// Done, and the first answer is lost.
    Lost,
    /// Done, and every answer is lost.
    Mute,
    /// Done, and it can't be undone until somebody repairs the shop.
    Stuck,
}

use Behaviour::{Busy, Fine, Lost, Mute, Refused, Stuck};

/// One in so many orders is each of these.
const KINDS: [[Behaviour; 4]; 20] = [
    [Fine, Fine, Fine, Fine],
    [Refused, Fine, Fine, Fine],
    [Fine, Fine, Fine, Fine],
    [Fine, Refused, Fine, Fine],
    [Fine, Fine, Fine, Fine],
    [Fine, Fine, Refused, Fine],
    [Fine, Busy, Fine, Fine],
    [Fine, Fine, Fine, Refused],
    [Lost, Fine, Fine, Fine],
    [Busy, Lost, Fine, Refused],
    [Fine, Fine, Lost, Busy],
    [Mute, Fine, Fine, Fine],
    [Fine, Fine, Fine, Lost],
    [Fine, Mute, Fine, Fine],
    [Busy, Fine, Busy, Fine],
    [Lost, Fine, Mute, Fine],
    [Fine, Fine, Fine, Fine],
    [Fine, Busy, Fine, Mute],
    [Fine, Stuck, Fine, Fine],
    [Fine, Stuck, Refused, Fine],
];

#[derive(Clone, Debug)]
pub struct Order {
    /// Id of its saga.
    pub id: String,
    pub input: Value,
    behaviours: [Behaviour; 4],
}

pub fn orders(count: usize) -> Vec<Order> {
    (0..count).zip(KINDS.iter().cycle()).map(|(number, behaviours)| order(number, *behaviours)).collect()
}

fn order(number: usize, behaviours: [Behaviour; 4]) -> Order {
    let [sku, card, address, customer] = behaviours;
    let goods = ["tea", "coffee", "cocoa"];
    let input = json!({
        "sku": sku.before(goods.get(number % goods.len()).unwrap_or(&"tea")),
        "count": number % 3 + 1,
        "card": card.before("visa"),
        "address": address.before("Berlin"),
        "customer": customer.before("ada"),
    });
    Order { id: format!("order-{number:04}"), input, behaviours }
}

impl Behaviour {
    fn before(self, what: &str) -> String {
        match self {
            Self::Fine => what.to_owned(),
            Self::Refused => format!("refused {what}"),
            Self::Busy => format!("busy {what}"),
            Self::Lost => format!("lost {what}"),
            Self::Mute => format!("mute {what}"),
            Self::Stuck => format!("stuck {what}"),
        }
    }
}

impl Order {
    /// The step that fails for good, by its place; none = the order goes through.
    pub fn fails(&self) -> Option<usize> {
        self.behaviours.iter().position(|behaviour| matches!(behaviour, Refused | Mute))
    }

    /// The state that its saga has to end in.
    pub fn end(&self) -> &'static str {
        if self.fails().is_some() { "cancelled" } else { "completed" }
    }

    /// What has to be undone, in this order: the steps before the failed one, and that one too if nobody could know its
    /// result.
    pub fn undone(&self) -> Vec<usize> {
        let Some(fails) = self.fails() else { return Vec::new() };
        let unknown = self.behaviours.get(fails) == Some(&Mute);
        (0..fails + usize::from(unknown)).rev().collect()
    }

    /// The same when a host was killed while it called the step that fails: it can't know that the call had no effect, whatever
    /// the next one says, and undoes that step too.
    pub fn undone_after_a_crash(&self) -> Vec<usize> {
        self.fails().map(|fails| (0..=fails).rev().collect()).unwrap_or_default()
    }

    /// Whether it stops on the way back, until somebody acts.
    pub fn gets_stuck(&self) -> bool {
        self.undone().iter().any(|step| self.behaviours.get(*step) == Some(&Stuck))
    }
}
