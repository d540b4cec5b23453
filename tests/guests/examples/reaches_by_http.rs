//! Tries to get `http://<address>/` by `http`, and reports what came of it.
use waybill_plugin::host::http;
use waybill_plugin::host::http_types::Request;

guests::on_send!(config, _call, batch => {
    let request = Request {
        method: "GET".to_owned(),
        url: format!("http://{}/", config.address),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: 5_000,
        tls: None,
        attributes: Vec::new(),
    };
    let seen = match http::send(vec![request]).await.pop() {
        Some(Ok(response)) => format!("reached {}", response.status),
        Some(Err(error)) => format!("{:?}", error.error),
        None => "no result".to_owned(),
    };
    Ok(guests::reports(&batch, &seen))
});
