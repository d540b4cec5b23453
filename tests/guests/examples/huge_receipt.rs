//! Acknowledges with a receipt of `amount` bytes of reference and 100 attributes of as many bytes together.
use guests::{Outcome, Receipt};

guests::on_send!(config, _call, batch => {
    let receipt = |number: usize| {
        let mut receipt = Receipt::with_reference(format!("{number}{}", "x".repeat(config.amount)));
        receipt.attributes = (0..100).map(|name| (format!("name-{name}"), "x".repeat(config.amount / 100))).collect();
        Outcome::Ack(receipt)
    };
    Ok((0..batch.len()).map(receipt).collect())
});
