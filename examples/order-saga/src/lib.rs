//! Three steps of a shop's orders, each with what undoes it. The state is the shop's; nothing is kept here.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use waybill_plugin::participant::{Done, Output, Participant, Service, Step, StepCall, StepError, Undo};
use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};

waybill_plugin::manifest!();
waybill_plugin::export_participant!(Orders { ReserveStock: Undo, ChargePayment: Undo, BookShipment: Undo });

/// What all steps share.
struct Orders {
    shop: Service,
}

/// `config` of the participant, as the schema in waybill-plugin.toml describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    url: String,
}

impl Participant for Orders {
    type Config = Config;

    async fn open(_: &CallInfo, _: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self { shop: Service::at("shop", &config.url) }, Opened::new()))
    }
}

/// Whose step is undone. The order names it, not what the step answered: nobody may know that answer.
#[derive(Serialize)]
struct OrderName<'a> {
    order: &'a str,
}

impl Orders {
    /// Asks the shop to undo what it did for an order. What was never done is undone already, and the shop then refuses it
    /// if it comes late.
    async fn undo(&self, call: &StepCall, path: &str, order: &str) -> Result<Output<()>, StepError> {
        self.shop.post::<IgnoredAny>(call, path, &OrderName { order }).await?;
        Ok(().into())
    }
}

/// Holds goods for an order.
struct ReserveStock;

#[derive(Serialize, Deserialize)]
struct Goods {
    order: String,
    sku: String,
    count: u32,
}

#[derive(Serialize, Deserialize)]
struct Hold {
    hold: String,
    /// What the goods cost together.
    cents: u64,
}

impl Step<Orders> for ReserveStock {
    const NAME: &'static str = "reserve-stock";
    const SUMMARY: &'static str = "Holds goods for an order.";
    type Input = Goods;
    type Output = Hold;

    async fn execute(orders: &Orders, call: &StepCall, goods: Goods) -> Result<Done<Hold>, StepError> {
        check(&goods)?;
        let hold: Hold = orders.shop.post(call, "/holds", &goods).await?;
        Ok(hold.into())
    }
}

impl Undo<Orders> for ReserveStock {
    async fn undo(orders: &Orders, call: &StepCall, goods: Goods, _: Option<Hold>) -> Result<Output<()>, StepError> {
        orders.undo(call, "/holds/undo", &goods.order).await
    }
}

/// What can be told without asking anybody.
fn check(goods: &Goods) -> Result<(), StepError> {
    if goods.count == 0 {
        return Err(StepError::permanent("ORDERS.EMPTY", format!("an order of no {}", goods.sku)));
    }
    Ok(())
}

/// Charges the customer's card for the whole order.
struct ChargePayment;

#[derive(Serialize, Deserialize)]
struct Payment {
    order: String,
    card: String,
    cents: u64,
}

#[derive(Serialize, Deserialize)]
struct Charge {
    charge: String,
}

impl Step<Orders> for ChargePayment {
    const NAME: &'static str = "charge-payment";
    const SUMMARY: &'static str = "Charges the customer's card.";
    type Input = Payment;
    type Output = Charge;

    async fn execute(orders: &Orders, call: &StepCall, payment: Payment) -> Result<Done<Charge>, StepError> {
        let charge: Charge = orders.shop.post(call, "/charges", &payment).await?;
        Ok(charge.into())
    }
}

impl Undo<Orders> for ChargePayment {
    async fn undo(
        orders: &Orders,
        call: &StepCall,
        payment: Payment,
        _: Option<Charge>,
    ) -> Result<Output<()>, StepError> {
        orders.undo(call, "/charges/undo", &payment.order).await
    }
}

/// Sends the goods on their way.
struct BookShipment;

#[derive(Serialize, Deserialize)]
struct Parcel {
    order: String,
    address: String,
}

#[derive(Serialize, Deserialize)]
struct Shipment {
    tracking: String,
}

impl Step<Orders> for BookShipment {
    const NAME: &'static str = "book-shipment";
    const SUMMARY: &'static str = "Books the parcel's way to the customer.";
    type Input = Parcel;
    type Output = Shipment;

    async fn execute(orders: &Orders, call: &StepCall, parcel: Parcel) -> Result<Done<Shipment>, StepError> {
        let shipment: Shipment = orders.shop.post(call, "/shipments", &parcel).await?;
        Ok(shipment.into())
    }
}

impl Undo<Orders> for BookShipment {
    async fn undo(
        orders: &Orders,
        call: &StepCall,
        parcel: Parcel,
        _: Option<Shipment>,
    ) -> Result<Output<()>, StepError> {
        orders.undo(call, "/shipments/undo", &parcel.order).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_nothing_is_refused_for_good() {
        let goods = |count| Goods { order: "o-1".to_owned(), sku: "tea".to_owned(), count };
        assert!(matches!(check(&goods(0)), Err(StepError::Permanent(_))));
        assert_eq!(check(&goods(1)), Ok(()));
    }
}
