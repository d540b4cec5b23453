//! Blocks the whole instance for an hour by `wasi:clocks`.
guests::on_send!(_config, _call, batch => {
    std::thread::sleep(std::time::Duration::from_secs(3_600));
    Ok(guests::acks(&batch))
});
