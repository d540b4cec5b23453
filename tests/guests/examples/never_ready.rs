//! Waits in `send-batch` for something that never happens.
guests::on_send!(_config, _call, batch => {
    std::future::pending::<()>().await;
    Ok(guests::acks(&batch))
});
