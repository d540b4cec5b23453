//! Tries to get `http://<address>/` by `wasi:http`, and reports what came of it.
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, Method, OutgoingRequest, Scheme};

fn get(address: &str) -> String {
    let request = OutgoingRequest::new(Fields::new());
    let prepared = request
        .set_method(&Method::Get)
        .and_then(|()| request.set_scheme(Some(&Scheme::Http)))
        .and_then(|()| request.set_authority(Some(address)))
        .and_then(|()| request.set_path_with_query(Some("/")));
    if prepared.is_err() {
        return "not a request".to_owned();
    }
    let answer = match handle(request, None) {
        Ok(answer) => answer,
        Err(error) => return format!("{error:?}"),
    };
    answer.subscribe().block();
    match answer.get() {
        Some(Ok(Ok(response))) => format!("reached {}", response.status()),
        Some(Ok(Err(error))) => format!("{error:?}"),
        other => format!("no result: {other:?}"),
    }
}

guests::on_send!(config, _call, batch => {
    Ok(guests::reports(&batch, &get(&config.address)))
});
