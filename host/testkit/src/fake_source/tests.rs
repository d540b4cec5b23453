//! What a fake source tells, and whom.
#![allow(clippy::unwrap_used)]
use super::*;

const WAIT: Duration = Duration::from_millis(1);

fn revoked(group: &str) -> Notices {
    Notices { revoked: vec![group.to_owned()], ..Notices::default() }
}

#[tokio::test(start_paused = true)]
async fn what_it_tells_is_of_the_session_that_was_pulled_and_comes_in_order() {
    let shop = FakeSource::new("shop");
    let plugin = FakeSourcePlugin(Arc::clone(&shop));
    let serving = plugin.open(OpenSource::default()).await.unwrap();
    let session = serving.pull(0, 1, 1, WAIT).await.unwrap().session;
    // Its successor is open beside it, and isn't pulled yet.
    let beside = plugin.open(OpenSource::default()).await.unwrap();
    for group in ["p-0", "p-1"] {
        shop.tell(0, revoked(group));
    }
    assert!(tokio::time::timeout(WAIT, beside.next_notices()).await.is_err(), "nothing was told of its session");
    for group in ["p-0", "p-1"] {
        let told = serving.next_notices().await;
        assert_eq!((told.session, told.notices.revoked), (session, vec![group.to_owned()]));
    }
    // A session that broke tells nothing, and what is told then is of the one that follows.
    shop.tell(0, revoked("p-2"));
    shop.break_connections();
    let next = serving.pull(0, 1, 1, WAIT).await.unwrap().session;
    assert_ne!(next, session);
    shop.tell(0, revoked("p-3"));
    let told = serving.next_notices().await;
    assert_eq!((told.session, told.notices.revoked), (next, vec!["p-3".to_owned()]));
}
