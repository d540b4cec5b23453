//! Writes `amount` log entries of 1 KiB, with a field of 1 KiB each, before it answers.
guests::on_send!(config, _call, batch => {
    let text = "x".repeat(1_024);
    for number in 0..config.amount {
        waybill_plugin::error!([("number", number), ("text", text)], "{text}");
    }
    Ok(guests::acks(&batch))
});
