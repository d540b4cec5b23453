//! Tests of the order in which arrivals are handed over and acknowledged.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use waybill_plugin::transport::Fault;

use super::*;

fn arrivals(count: u16) -> Arrivals {
    let mut arrivals = Arrivals::new(7, 50, 1_000);
    for id in 1..=count {
        arrivals.push(id, Some(Delivery::new(*b"", "a", id.to_string())));
    }
    arrivals
}

fn hand_over(arrivals: &mut Arrivals) -> Vec<Delivery> {
    std::iter::from_fn(|| arrivals.next(None, 1_000)).collect()
}

fn item(delivery: &Delivery, disposition: Disposition) -> Settlement {
    Settlement { token: delivery.token.clone(), disposition }
}

#[test]
fn acknowledgements_go_in_the_order_of_arrival() {
    let mut arrivals = arrivals(4);
    let all = hand_over(&mut arrivals);
    let acks: Vec<_> = [3, 1].map(|place: usize| item(&all[place], Disposition::Ack)).into();
    assert_eq!(arrivals.settle(&acks), [Settled::Done, Settled::Done]);
    assert!(arrivals.acknowledge().is_empty(), "the first isn't settled");
    assert_eq!(arrivals.settle(&[item(&all[0], Disposition::Ack)]), [Settled::Done]);
    assert_eq!(arrivals.acknowledge(), [1, 2]);
    assert_eq!(arrivals.settle(&[item(&all[0], Disposition::Ack)]), [Settled::Lost], "a token settles once");
    arrivals.settle(&[item(&all[2], Disposition::Ack)]);
    assert_eq!(arrivals.acknowledge(), [3, 4]);
}

#[test]
fn what_is_given_back_is_handed_over_first_and_marked() {
    let mut arrivals = arrivals(3);
    let first = arrivals.next(None, 1_000).unwrap();
    let second = arrivals.next(None, 1_000).unwrap();
    assert!(!first.redelivered);
    let back = [item(&second, Disposition::Release), item(&first, Disposition::Nack(None))];
    assert_eq!(arrivals.settle(&back), [Settled::Done, Settled::Done]);
    assert_eq!(arrivals.settle(&back), [Settled::Lost, Settled::Lost]);
    let again = hand_over(&mut arrivals);
    let shown: Vec<_> = again.iter().map(|delivery| (delivery.payload[0], delivery.redelivered)).collect();
    assert_eq!(shown, [(b'1', true), (b'2', true), (b'3', false)]);
}

#[test]
fn what_nobody_wants_or_the_server_does_not_count_is_passed_over() {
    let mut arrivals = Arrivals::new(7, 50, 1_000);
    arrivals.push(1, None);
    arrivals.push(0, Some(Delivery::new(*b"", "a", *b"b")));
    arrivals.push(2, None);
    assert_eq!(arrivals.acknowledge(), [1]);
    let all = hand_over(&mut arrivals);
    arrivals.settle(&[item(&all[0], Disposition::Ack)]);
    assert_eq!(arrivals.acknowledge(), [2]);
}

#[test]
fn no_more_is_taken_than_the_window_lets_in() {
    let mut few = Arrivals::new(1, 2, 1_000);
    few.push(1, Some(Delivery::new(*b"", "a", *b"")));
    assert!(few.has_room());
    few.push(2, Some(Delivery::new(*b"", "a", *b"")));
    assert!(!few.has_room());
    let mut small = Arrivals::new(1, 50, 10);
    small.push(1, Some(Delivery::new(*b"", "a", vec![0; 10])));
    assert!(!small.has_room());
    let all = hand_over(&mut small);
    small.settle(&[item(&all[0], Disposition::Ack)]);
    assert!(small.has_room());
}

#[test]
fn a_payload_that_is_too_large_is_told_by_its_size_and_others_wait_for_room() {
    let mut arrivals = Arrivals::new(1, 50, 1_000);
    for size in [200, 50] {
        arrivals.push(1, Some(Delivery::new(*b"", "a", vec![0; size])));
    }
    let large = arrivals.next(None, 100).unwrap();
    assert_eq!((large.omitted, large.payload.len()), (Some(200), 0));
    // Its topic has one byte.
    assert!(arrivals.next(Some(50), 100).is_none());
    assert_eq!(arrivals.next(Some(51), 100).unwrap().payload.len(), 50);
}

#[test]
fn headers_weigh_as_a_payload_does() {
    let mut arrivals = Arrivals::new(1, 50, 300);
    for id in 1..=3 {
        let mut delivery = Delivery::new(*b"", "a", *b"");
        delivery.headers.push(("k".to_owned(), "v".repeat(100)));
        arrivals.push(id, Some(delivery));
    }
    assert!(!arrivals.has_room(), "three times 150 bytes are more than 300");
    let first = arrivals.next(None, 200).unwrap();
    assert_eq!(weight(&first), 150);
    assert!(arrivals.next(Some(149), 200).is_none());
    let second = arrivals.next(Some(150), 200).unwrap();
    arrivals.settle(&[item(&first, Disposition::Ack), item(&second, Disposition::Ack)]);
    assert!(arrivals.has_room());
}

#[test]
fn what_was_in_hand_is_lost_with_its_connection_and_no_token_of_another_settles() {
    let mut arrivals = arrivals(3);
    let first = arrivals.next(None, 1_000).unwrap();
    let second = arrivals.next(None, 1_000).unwrap();
    arrivals.settle(&[item(&first, Disposition::Ack)]);
    let other =
        Settlement { token: [8_u64.to_be_bytes(), 1_u64.to_be_bytes()].concat(), disposition: Disposition::Ack };
    let odd = Settlement { token: b"x".to_vec(), disposition: Disposition::Ack };
    assert_eq!(arrivals.settle(&[other, odd]), [Settled::Lost, Settled::Lost]);
    let refused = Fault::new("A", "b");
    assert_eq!(arrivals.settle(&[item(&second, Disposition::Extend)]), [Settled::Done]);
    for disposition in [Disposition::Nack(Some(1)), Disposition::Reject(refused)] {
        assert_eq!(arrivals.settle(&[item(&second, disposition)]), [Settled::unsupported()]);
    }
    assert_eq!(arrivals.lost(), [second.token]);
}
