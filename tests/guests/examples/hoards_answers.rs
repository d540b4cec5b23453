//! Sends `amount` requests to `http://<address>/` in one call; reports how many answers came whole, cut and not at all, and
//! their bytes.
use waybill_plugin::host::http;
use waybill_plugin::host::http_types::Request;

guests::on_send!(config, _call, batch => {
    let request = || Request {
        method: "GET".to_owned(),
        url: format!("http://{}/", config.address),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: 60_000,
        tls: None,
        attributes: Vec::new(),
    };
    let (mut whole, mut cut, mut none, mut bytes) = (0, 0, 0, 0);
    for answer in http::send((0..config.amount).map(|_| request()).collect()).await {
        match answer {
            Ok(response) => {
                bytes += response.body.len();
                if response.truncated { cut += 1 } else { whole += 1 }
            }
            Err(_) => none += 1,
        }
    }
    Ok(guests::reports(&batch, &format!("{whole} whole, {cut} cut, {none} none, {bytes} bytes")))
});
