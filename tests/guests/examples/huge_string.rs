//! Hands the host a name of `amount` bytes.
use waybill_plugin::host::metrics;

guests::on_send!(config, _call, batch => {
    metrics::counter_add(&"x".repeat(config.amount), 1.0, &[]);
    Ok(guests::acks(&batch))
});
