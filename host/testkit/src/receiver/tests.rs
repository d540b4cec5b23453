//! The receiver against a plain client.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;

fn delivery(receiver: &Receiver, id: &str, attempt: u32) -> reqwest::RequestBuilder {
    reqwest::Client::new()
        .post(receiver.url("orders"))
        .header("ce-id", id)
        .header("idempotency-key", id)
        .header("waybill-tenant", "acme")
        .header("waybill-key", "k")
        .header("waybill-attempt", attempt.to_string())
        .header("waybill-lease-epoch", "7")
        .header("waybill-seq", "42")
        .body("{}")
}

#[tokio::test]
async fn it_answers_as_judged_and_remembers_what_came() {
    let judge = |delivered: &Delivered| Answer::status(if delivered.attempt == 1 { 503 } else { 204 });
    let receiver = Receiver::start(judge).await.unwrap();
    assert_eq!(delivery(&receiver, "m1", 1).send().await.unwrap().status(), 503);
    assert_eq!(delivery(&receiver, "m1", 2).send().await.unwrap().status(), 204);
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), 2);
    assert!(!arrivals[0].accepted() && arrivals[1].accepted());
    assert!(arrivals.iter().all(|arrival| arrival.answered));
    let second = &arrivals[1].delivered;
    assert_eq!((second.id.as_str(), second.tenant.as_str(), second.key.as_deref()), ("m1", "acme", Some("k")));
    assert_eq!((second.attempt, second.epoch, second.seq), (2, 7, 42));
    assert_eq!((second.path.as_str(), second.body.as_ref()), ("/orders", b"{}".as_slice()));
    assert!(receiver.faults().is_empty());
}

#[tokio::test]
async fn a_request_that_is_no_delivery_is_a_fault_and_no_arrival() {
    let receiver = Receiver::start(|_: &Delivered| Answer::status(204)).await.unwrap();
    let whole = [
        ("ce-id", "m1"),
        ("idempotency-key", "m1"),
        ("waybill-tenant", "acme"),
        ("waybill-attempt", "1"),
        ("waybill-lease-epoch", "7"),
        ("waybill-seq", "42"),
    ];
    for (left_out, _) in whole {
        let mut request = reqwest::Client::new().post(receiver.url("orders"));
        for (name, value) in whole.iter().filter(|(name, _)| *name != left_out) {
            request = request.header(*name, *value);
        }
        assert_eq!(request.send().await.unwrap().status(), 400, "without {left_out}");
        assert!(receiver.faults().last().unwrap().contains(&format!("no {left_out} header")));
    }
    let mut request = reqwest::Client::new().post(receiver.url("orders"));
    for (name, value) in whole {
        request = request.header(name, if name == "ce-id" { "m2" } else { value });
    }
    assert_eq!(request.send().await.unwrap().status(), 400);
    assert!(receiver.faults().last().unwrap().contains(r#"ce-id is "m2" but idempotency-key is "m1""#));
    assert!(receiver.arrivals().is_empty());
}

#[tokio::test]
async fn a_held_answer_is_in_flight_until_the_peer_is_gone() {
    let receiver = Receiver::start(|_: &Delivered| Answer::status(200).after(Duration::from_secs(600))).await.unwrap();
    let request = tokio::spawn(delivery(&receiver, "m1", 1).send());
    let mut gauges = receiver.watch();
    gauges.wait_for(|gauges| gauges.in_flight == 1).await.unwrap();
    request.abort();
    receiver.drained().await;
    assert_eq!(receiver.gauges(), Gauges { connections: 0, in_flight: 0, arrived: 1, settled: 1 });
    assert!(!receiver.arrivals()[0].answered);
}

#[test]
fn one_in_so_many_is_about_that_and_the_same_every_time() {
    let choice = OneIn { many: 10, seed: 3 };
    let chosen = |seed| {
        let choice = OneIn { seed, ..choice };
        (0..10_000).filter(|n| choice.chooses(format!("order-{n}").as_bytes(), 1)).collect::<Vec<_>>()
    };
    assert!((800..1_200).contains(&chosen(3).len()), "{}", chosen(3).len());
    assert_eq!(chosen(3), chosen(3));
    assert_ne!(chosen(3), chosen(4));
    assert!(!OneIn { many: 0, seed: 3 }.chooses(b"x", 1));
}
