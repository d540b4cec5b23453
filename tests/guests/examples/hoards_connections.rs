//! Opens `amount` connections to `address` and holds them; reports how many it got and why there weren't more.
use waybill_plugin::host::net::Connection;
use waybill_plugin::host::net_types::ConnectOptions;

guests::on_send!(config, _call, batch => {
    let mut held = Vec::new();
    let mut end = "all".to_owned();
    while held.len() < config.amount {
        let options = ConnectOptions { tls: None, timeout: 5_000, keep_alive: None, attributes: Vec::new() };
        match Connection::connect(format!("tcp://{}", config.address), options).await {
            Ok(connection) => held.push(connection),
            Err(error) => {
                end = format!("{error:?}");
                break;
            }
        }
    }
    Ok(guests::reports(&batch, &format!("{} then {end}", held.len())))
});
