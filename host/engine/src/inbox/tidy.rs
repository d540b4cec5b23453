//! Once a minute: what is out of the window is forgotten, history past its keeping time goes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use super::service::Inbox;

/// Pause between two rounds.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// Records looked at in one transaction.
const PAGE: usize = 500;
/// Pause between two pages, so that tidying never takes the store for itself.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs rounds until the host drains.
pub(crate) async fn run(inbox: Arc<Inbox>) {
    let closing = inbox.shared.context.closing.clone();
    let rounds = async {
        loop {
            sleep(TIDY_EVERY).await;
            round(&inbox).await;
        }
    };
    closing.run_until_cancelled(rounds).await;
}

/// One shard that can't be tidied holds up no other.
async fn round(inbox: &Inbox) {
    for shard in inbox.shards.iter().filter(|shard| shard.is_written()) {
        if let Err(error) = tidy(inbox, shard).await {
            let code = error.code().as_str();
            tracing::warn!(shard = shard.shard.0, code, %error, "what the inbox has seen long ago can't be forgotten now");
        }
    }
}

async fn tidy(inbox: &Inbox, shard: &super::InboxHandle) -> Result<(), StoreError> {
    let config = inbox.shared.config.load_full();
    // No mark has this age: the first owner begins at a later one.
    let until = shard.age().window_start(config.dedup_window).unwrap_or(OwnedAge(0));
    let keep = u64::try_from(config.keep_done.as_millis()).unwrap_or(u64::MAX);
    loop {
        let now = inbox.shared.context.clock.now().wall;
        let done_before = UnixMillis(now.0.saturating_sub(keep));
        let tidied = inbox.shared.store.tidy_inbox(shard.shard, until, done_before, PAGE).await?;
        inbox.shared.meter.tidied(&tidied);
        if tidied.records() < PAGE {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}
