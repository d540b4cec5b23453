//! Puts the value of the secret `granted` where none belongs: log, stdout, receipt, fault. The host redacts what it recognises.
use guests::{Fault, Outcome};
use waybill_plugin::host::secrets;

guests::on_send!(_config, _call, batch => {
    let value = secrets::get("granted").map(|secret| String::from_utf8_lossy(&secret.value).into_owned());
    let value = value.unwrap_or_else(|error| format!("{error:?}"));
    waybill_plugin::error!([("secret", value)], "the secret is {value}");
    println!("the secret is {value}");
    Ok((0..batch.len())
        .map(|index| match index {
            0 => guests::report(format!("the secret is {value}")),
            _ => Outcome::Permanent(Fault::new("FIXTURE.SECRET", format!("the secret is {value}")).with_attribute("secret", &value)),
        })
        .collect())
});
