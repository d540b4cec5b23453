//! What telemetry costs: W1b with it off, and on with a sampler that records no trace or every one. Metrics and logs are exported either way.

use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::oneshot;
use waybill_testkit::load::Sink;

use super::Bench;
use super::delivery;
use super::figure::{Figure, Side};

pub const PARTS: [(&str, Side); 3] =
    [("W1b otel off", Side::Waybill), ("W1b otel 0", Side::Waybill), ("W1b otel 1", Side::Waybill)];

/// A receiver that can't listen within this time has failed.
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn measure(bench: &Bench, name: &str, messages: u64) -> Result<Figure> {
    let ratio = match name {
        "W1b otel off" => return delivery::in_batches(bench, messages, "").await,
        "W1b otel 0" => "0.0",
        "W1b otel 1" => "1.0",
        _ => bail!("{name} isn't a workload of telemetry"),
    };
    let receiver = Receiver::start().await?;
    let config = format!("[otel]\nendpoint = \"{}\"\nsample_ratio = {ratio}\n", receiver.url);
    let figure = delivery::in_batches(bench, messages, &config).await?;
    // The host exports the rest when it ends, so by now there is something of every signal that is on.
    match receiver.end().await? {
        0 => bail!("the host exported nothing: what was measured isn't what it says"),
        exports => eprintln!("  {exports} exports were taken"),
    }
    Ok(figure)
}

/// Takes exports and throws them away, on a thread of its own: whoever sends and receives messages here isn't held up by it. Its CPU time
/// is this process's, and so not in the figure.
struct Receiver {
    url: String,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<u64>,
}

impl Receiver {
    async fn start() -> Result<Self> {
        let ((stop, stopped), (listens, url)) = (oneshot::channel::<()>(), oneshot::channel());
        let thread = std::thread::Builder::new().name("exports".to_owned()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _told = listens.send(Err(error));
                    return 0;
                }
            };
            runtime.block_on(async move {
                let sink = match Sink::start(false).await {
                    Ok(sink) => sink,
                    Err(error) => {
                        let _told = listens.send(Err(error));
                        return 0;
                    }
                };
                let _told = listens.send(Ok(sink.url("")));
                let _ended = stopped.await;
                sink.arrived()
            })
        });
        let thread = thread.context("starting the receiver's thread")?;
        let url = tokio::time::timeout(START_TIMEOUT, url).await.context("the receiver of exports doesn't listen")?;
        let url = url.context("the receiver of exports ended")?.context("the receiver of exports can't listen")?;
        Ok(Self { url: url.trim_end_matches('/').to_owned(), stop, thread })
    }

    /// Ends it. How many exports it took.
    async fn end(self) -> Result<u64> {
        let Self { stop, thread, .. } = self;
        drop(stop);
        let joined = tokio::task::spawn_blocking(move || thread.join()).await.context("ending the receiver")?;
        joined.map_err(|_| anyhow::anyhow!("the receiver of exports panicked"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_testkit::load::Client;

    use super::*;

    #[tokio::test]
    async fn the_receiver_takes_whatever_is_exported_and_counts_it() {
        let receiver = Receiver::start().await.unwrap();
        let mut client = Client::connect(&receiver.url).await.unwrap();
        for path in ["/v1/traces", "/v1/metrics"] {
            client.post(path, vec![7; 300_000].into()).await.unwrap();
        }
        assert_eq!(receiver.end().await.unwrap(), 2);
    }
}
