//! Tries to connect to `address` by `net`, and reports what came of it.
use waybill_plugin::host::net::Connection;
use waybill_plugin::host::net_types::ConnectOptions;

guests::on_send!(config, _call, batch => {
    let options = ConnectOptions { tls: None, timeout: 5_000, keep_alive: None, attributes: Vec::new() };
    let seen = match Connection::connect(format!("tcp://{}", config.address), options).await {
        Ok(connection) => format!("reached {}", connection.info().remote),
        Err(error) => format!("{error:?}"),
    };
    Ok(guests::reports(&batch, &seen))
});
