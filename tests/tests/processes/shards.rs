//! Another number of shards than at the first start is refused by the release binary, and changes nothing.

use std::time::Duration;

use serde_json::json;
use waybill_testkit::process::{Host, Launch, ProcessError, binary};

/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_shards_is_refused_at_the_start() {
    for (first, other) in [(4, 1), (1, 4)] {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("surrealkv://{}", dir.path().join("data").display());
        let launch = |shards: u16| {
            let config = format!(
                "[store]\nurl = \"{url}\"\n[outbox]\nshards = {shards}\n\
                 [[route]]\nmatch = \"bus:**\"\ntransport = \"external\"\n"
            );
            Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap()
        };
        let (host, api) = Host::ready(&launch(first)).await.unwrap();
        let messages: Vec<_> = (0..20)
            .map(|key| json!({ "topic": "bus:x", "id": format!("m{key}"), "key": format!("k{key}"), "payload": 1 }))
            .collect();
        assert!(api.post("/v1/messages", &json!({ "messages": messages })).await.unwrap().is_ok());
        assert!(host.terminate(PATIENCE).await.unwrap().success());

        let Err(ProcessError::Ended { status, tail, .. }) = Host::ready(&launch(other)).await else {
            panic!("a host with {other} shards runs on a store with {first}");
        };
        assert_eq!(status.code(), Some(2), "{tail}");
        for word in ["CONFIG.SHARDS", &format!("outbox.shards is {other}"), &format!("made with {first}")] {
            assert!(tail.contains(word), "{word:?} isn't in {tail}");
        }

        let (host, api) = Host::ready(&launch(first)).await.unwrap();
        assert_eq!(api.messages("pending").await.unwrap().len(), 20);
        assert!(host.terminate(PATIENCE).await.unwrap().success());
    }
}
