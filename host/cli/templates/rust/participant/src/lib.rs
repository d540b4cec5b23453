//! A participant with one step that can be undone. Change `Reserve`, or write further steps beside it.

use serde::{Deserialize, Serialize};
use waybill_plugin::participant::{Done, Outgoing, Output, Participant, Step, StepCall, StepError, Undo};
use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};

waybill_plugin::manifest!();
waybill_plugin::export_participant!(Stock { Reserve: Undo });

/// What all steps share.
struct Stock {
    config: Config,
}

/// `config` of the participant, as the schema in waybill-plugin.toml describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    most: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { most: 100 }
    }
}

impl Participant for Stock {
    type Config = Config;

    async fn open(_: &CallInfo, _: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self { config }, Opened::new()))
    }
}

#[derive(Deserialize)]
struct Order {
    sku: String,
    count: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Reservation {
    sku: String,
    reserved: u32,
}

struct Reserve;

impl Step<Stock> for Reserve {
    const NAME: &'static str = "reserve";
    const SUMMARY: &'static str = "Reserves stock for an order.";
    type Input = Order;
    type Output = Reservation;

    async fn execute(stock: &Stock, call: &StepCall, order: Order) -> Result<Done<Reservation>, StepError> {
        let reservation = reserve(&stock.config, order)?;
        // The key is the same on every attempt: a receiver can tell a repeat.
        let message = Outgoing::json("bus:stock.reserved", &reservation)
            .with_header("idempotency-key", call.idempotency_key());
        Ok(Output::from(reservation).with_message(message).into())
    }
}

impl Undo<Stock> for Reserve {
    async fn undo(
        _: &Stock,
        _: &StepCall,
        _: Order,
        reservation: Option<Reservation>,
    ) -> Result<Output<()>, StepError> {
        // None: nobody knows whether it was done. Giving back what was never reserved is a success.
        let _ = reservation;
        Ok(().into())
    }
}

/// The step itself. Pure, so that `cargo test` runs it natively.
fn reserve(config: &Config, order: Order) -> Result<Reservation, StepError> {
    if order.count > config.most {
        let reason = format!("an order has at most {} pieces", config.most);
        return Err(StepError::permanent("MY_PLUGIN.TOO_MANY", reason));
    }
    Ok(Reservation { sku: order.sku, reserved: order.count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_reserved_up_to_the_most() {
        let order = |count| Order { sku: "tea".to_owned(), count };
        let config = Config { most: 10 };
        assert_eq!(reserve(&config, order(10)), Ok(Reservation { sku: "tea".to_owned(), reserved: 10 }));
        assert!(matches!(reserve(&config, order(11)), Err(StepError::Permanent(_))));
    }
}
