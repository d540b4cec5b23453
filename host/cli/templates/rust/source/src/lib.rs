//! A source: takes messages off a queue over HTTP. Change `read` and the requests into what your sender speaks.

mod queue;

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::Deserialize;
use waybill_plugin::host::http;
use waybill_plugin::host::http_types::Request;
use waybill_plugin::source::{Delivery, Disposition, Pulled, Settled, Settlement, Source, SourceArgs};
use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};

waybill_plugin::manifest!();
waybill_plugin::export_source!(Queue);

/// Milliseconds of a call's time that are kept back, so that the last answer still reaches the host in time.
const MARGIN_MS: u32 = 250;

/// `config` of the source, as the schema in waybill-plugin.toml describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    url: String,
}

struct Queue {
    config: Config,
    /// Most deliveries that may be out at once.
    window: usize,
    /// Those that are out: brought and not settled.
    out: RefCell<BTreeSet<String>>,
}

impl Source for Queue {
    type Config = Config;

    async fn open(
        _: &CallInfo,
        _: &OpenArgs,
        wants: &SourceArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        Ok((Self { config, window: wants.window as usize, out: RefCell::default() }, Opened::new()))
    }

    async fn pull(&self, call: &CallInfo, max: u32, _: u32, _: u32) -> Result<Pulled, PluginError> {
        let unavailable = |reason: String| PluginError::unavailable("MY_PLUGIN.UNAVAILABLE", reason);
        let room = self.window.saturating_sub(self.out.borrow().len()).min(max as usize);
        if room == 0 {
            return Ok(Pulled::new(Vec::new()));
        }
        // The queue answers from its head, so what is out comes along.
        let asked = self.out.borrow().len() + room;
        let url = format!("{}?max={asked}", self.config.url);
        let answer = http::send(vec![request("GET", url, call)]).await.pop();
        match answer {
            Some(Ok(response)) if response.status == 200 => {
                let entries = queue::read(&response.body).map_err(unavailable)?;
                let mut out = self.out.borrow_mut();
                let fresh = queue::fresh(entries, &out, room);
                out.extend(fresh.iter().map(|entry| entry.id.clone()));
                Ok(Pulled::new(fresh.into_iter().map(delivery).collect()))
            }
            Some(Ok(response)) => Err(unavailable(format!("the queue answered {}", response.status))),
            Some(Err(error)) => Err(unavailable(waybill_plugin::net::reason(&error.error))),
            None => Err(PluginError::internal("the host gave no result for the request")),
        }
    }

    async fn settle(&self, call: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        let mut settled = Vec::new();
        for item in items {
            settled.push(match item.disposition {
                Disposition::Ack => self.take_off(call, &item.token).await,
                // It stays in the queue and comes again.
                Disposition::Release => {
                    self.no_longer_out(&item.token);
                    Settled::Done
                }
                _ => Settled::unsupported(),
            });
        }
        Ok(settled)
    }
}

impl Queue {
    async fn take_off(&self, call: &CallInfo, token: &[u8]) -> Settled {
        let url = format!("{}/{}", self.config.url, String::from_utf8_lossy(token));
        let answer = http::send(vec![request("DELETE", url, call)]).await.pop();
        let settled = queue::taken_off(answer.and_then(Result::ok).map(|response| response.status));
        if !matches!(settled, Settled::Failed(_)) {
            self.no_longer_out(token);
        }
        settled
    }

    fn no_longer_out(&self, token: &[u8]) {
        self.out.borrow_mut().remove(String::from_utf8_lossy(token).as_ref());
    }
}

fn delivery(entry: queue::Entry) -> Delivery {
    let id = entry.id;
    let payload = entry.payload.to_string();
    Delivery { id: Some(id.clone()), ..Delivery::new(id.into_bytes(), entry.topic, payload) }
}

fn request(method: &str, url: String, call: &CallInfo) -> Request {
    Request {
        method: method.to_owned(),
        url,
        headers: Vec::new(),
        body: Vec::new(),
        timeout: call.remaining().saturating_sub(MARGIN_MS).max(1),
        tls: None,
        attributes: Vec::new(),
    }
}
