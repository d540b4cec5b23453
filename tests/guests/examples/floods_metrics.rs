//! Makes `amount` metrics of different names and label values, with numbers that aren't.
use waybill_plugin::host::metrics;

guests::on_send!(config, _call, batch => {
    for number in 0..config.amount {
        let label = [("number".to_owned(), number.to_string())];
        metrics::counter_add(&format!("flood_{number}"), f64::NAN, &label);
        metrics::gauge_set("flood", f64::INFINITY, &label);
        metrics::histogram_record("Flood\n{}\"", -1.0, &label);
    }
    Ok(guests::acks(&batch))
});
