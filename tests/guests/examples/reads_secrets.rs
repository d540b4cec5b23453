//! Reads the secrets of `names` and reports what came of each, with the length and never the value.
use waybill_plugin::host::secrets;

guests::on_send!(config, _call, batch => {
    let seen: Vec<String> = config
        .names
        .iter()
        .map(|name| match secrets::get(name) {
            Ok(secret) => format!("{name}: {} bytes", secret.value.len()),
            Err(error) => format!("{name}: {error:?}"),
        })
        .collect();
    Ok(guests::reports(&batch, &seen.join(", ")))
});
