//! Sends `http://<address>/` a request with `amount` headers of 1 KiB each, and reports what came of it.
use waybill_plugin::host::http;
use waybill_plugin::host::http_types::Request;

guests::on_send!(config, _call, batch => {
    let request = Request {
        method: "POST".to_owned(),
        url: format!("http://{}/", config.address),
        headers: (0..config.amount).map(|number| (format!("x-{number}"), "x".repeat(1_024))).collect(),
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
