//! A handler: a paid order leaves a shipment. Change `shipment`.

use serde::{Deserialize, Serialize};
use waybill_plugin::handler::{Handled, Handler, Inbound, Outgoing, Verdict};
use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};

waybill_plugin::manifest!();
waybill_plugin::export_handler!(Shipping);

struct Shipping;

impl Handler for Shipping {
    type Config = waybill_plugin::config::Empty;

    async fn open(_: &CallInfo, _: &OpenArgs, _: Self::Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self, Opened::new()))
    }

    async fn handle(&self, _: &CallInfo, message: Inbound) -> Verdict {
        match message.json() {
            Ok(paid) => Handled::new().with_message(Outgoing::json("bus:shipments.wanted", &shipment(&paid))).into(),
            // Poison: another try would read the same.
            Err(verdict) => verdict,
        }
    }
}

#[derive(Deserialize)]
struct Paid {
    order: u64,
}

#[derive(Debug, PartialEq, Serialize)]
struct Shipment {
    order: u64,
    parcels: u32,
}

/// The work itself. Pure, so that `cargo test` runs it natively.
fn shipment(paid: &Paid) -> Shipment {
    Shipment { order: paid.order, parcels: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paid_order_is_shipped_in_one_parcel() {
        assert_eq!(shipment(&Paid { order: 7 }), Shipment { order: 7, parcels: 1 });
    }
}
