//! Connects to `address` and waits, without a limit, for bytes that never come.
use waybill_plugin::host::net::Connection;
use waybill_plugin::host::net_types::ConnectOptions;

guests::on_send!(config, _call, batch => {
    let options = ConnectOptions { tls: None, timeout: u32::MAX, keep_alive: None, attributes: Vec::new() };
    let answer = match Connection::connect(format!("tcp://{}", config.address), options).await {
        Ok(connection) => format!("{:?}", connection.read(1, 1, None).await),
        Err(error) => format!("{error:?}"),
    };
    Ok(guests::reports(&batch, &answer))
});
