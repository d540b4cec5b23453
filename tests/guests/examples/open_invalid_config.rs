//! `open` fails: the configuration can't work, at `address`.
guests::on_open!(config => {
    Err(guests::PluginError::invalid_config("address", &format!("`{}` is no address", config.address)))
});
