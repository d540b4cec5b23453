//! Tests of settling, and of what a session leaves behind.
#![allow(clippy::unwrap_used, clippy::panic)]

use waybill_plugin::transport::Fault;
use waybill_rabbitmq_wire::codec::next;

use super::*;

/// A session with so many deliveries, handed over.
fn channel(count: u64) -> (Channel, Vec<Vec<u8>>) {
    let mut channel = Channel::new(7, 50);
    channel.hold((1..=count).map(|tag| Delivered { tag, body: b"hello".to_vec(), ..Delivered::default() }));
    let tokens = std::iter::from_fn(|| channel.next(None).map(|(_, _, token)| token)).collect();
    (channel, tokens)
}

fn item(tokens: &[Vec<u8>], tag: usize, disposition: Disposition) -> Settlement {
    Settlement { token: tokens.get(tag - 1).unwrap().clone(), disposition }
}

/// `ack 3+` for one that means all up to it.
fn frames(mut out: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((frame, length)) = next(out).unwrap() {
        let [0, 60, 0, id, tag @ .., flag] = frame.payload else { panic!("{frame:?}") };
        let tag = u64::from_be_bytes(tag.try_into().unwrap());
        all.push(match (id, flag) {
            (80, 1) => format!("ack {tag}+"),
            (80, _) => format!("ack {tag}"),
            (90, 1) => format!("requeue {tag}"),
            (90, _) => format!("reject {tag}"),
            other => panic!("{other:?}"),
        });
        out = out.get(length..).unwrap();
    }
    all
}

fn settle(channel: &mut Channel, items: &[Settlement]) -> (Vec<String>, Vec<Settled>) {
    let mut out = Vec::new();
    let settled = channel.settle(items, &mut out);
    (frames(&out), settled)
}

#[test]
fn what_is_acknowledged_below_the_oldest_unsettled_is_one_frame() {
    let (mut channel, tokens) = channel(6);
    let acks = [1, 2, 4, 6].map(|tag| item(&tokens, tag, Disposition::Ack));
    assert_eq!(settle(&mut channel, &acks).0, ["ack 2+", "ack 4", "ack 6"]);
    let rest = [3, 5].map(|tag| item(&tokens, tag, Disposition::Ack));
    assert_eq!(settle(&mut channel, &rest).0, ["ack 5+"]);
    assert_eq!(channel.unsettled(), 0);
}

#[test]
fn nothing_is_acknowledged_by_a_frame_for_others() {
    let (mut channel, tokens) = channel(4);
    channel.hold([Delivered { tag: 5, ..Delivered::default() }].into_iter());
    let items = [
        item(&tokens, 2, Disposition::Release),
        item(&tokens, 3, Disposition::Ack),
        item(&tokens, 1, Disposition::Reject(Fault::new("A", "b"))),
        item(&tokens, 4, Disposition::Ack),
    ];
    // What is given back is gone from the channel before the acknowledgement of all up to the last.
    assert_eq!(settle(&mut channel, &items).0, ["requeue 2", "reject 1", "ack 4+"]);
    assert_eq!(channel.unsettled(), 1);
}

#[test]
fn a_token_settles_once_and_in_its_own_session_only() {
    let (mut first, tokens) = channel(1);
    let ack = [item(&tokens, 1, Disposition::Ack)];
    assert_eq!(settle(&mut first, &ack).1, [Settled::Done]);
    assert_eq!(settle(&mut first, &ack), (Vec::new(), vec![Settled::Lost]));
    let mut later = Channel::new(8, 50);
    later.hold([Delivered { tag: 1, ..Delivered::default() }].into_iter());
    assert_eq!(settle(&mut later, &ack), (Vec::new(), vec![Settled::Lost]));
    let odd = [Settlement { token: b"x".to_vec(), disposition: Disposition::Ack }];
    assert_eq!(settle(&mut later, &odd), (Vec::new(), vec![Settled::Lost]));
}

#[test]
fn what_the_protocol_can_not_do_is_told_and_stays_unsettled() {
    let (mut channel, tokens) = channel(1);
    let items = [item(&tokens, 1, Disposition::Extend), item(&tokens, 1, Disposition::Nack(Some(1)))];
    let (frames, settled) = settle(&mut channel, &items);
    assert_eq!((frames.len(), settled), (0, vec![Settled::unsupported(); 2]));
    assert_eq!(channel.unsettled(), 1);
}

#[test]
fn what_was_not_handed_over_is_given_back_and_the_rest_is_lost_with_its_session() {
    let (mut channel, tokens) = channel(2);
    channel.hold([3, 4].into_iter().map(|tag| Delivered { tag, body: b"hello".to_vec(), ..Delivered::default() }));
    assert_eq!((channel.held(), channel.held_bytes()), (2, 10));
    assert!(channel.next(Some(4)).is_none(), "it doesn't fit");
    let mut out = Vec::new();
    channel.give_back(&mut out);
    assert_eq!((frames(&out), channel.held_bytes()), (vec!["requeue 3".to_owned(), "requeue 4".to_owned()], 0));
    channel.hold([Delivered { tag: 5, ..Delivered::default() }].into_iter());
    assert_eq!(channel.lost(), tokens);
}

#[test]
fn a_session_whose_messages_are_large_goes_on_with_fewer_of_them() {
    let large = |tags: std::ops::RangeInclusive<u64>| {
        tags.map(|tag| Delivered { tag, body: vec![0; 100], ..Delivered::default() })
    };
    let mut channel = Channel::new(1, 5);
    channel.hold(large(1..=2));
    assert!(!channel.shrink(300), "there is room for more");
    channel.hold(large(3..=3));
    assert!(channel.shrink(300));
    assert_eq!(channel.prefetch(), 3);
    assert!(!channel.shrink(300), "no more is on its way");
    channel.give_back(&mut Vec::new());
    assert!(!channel.shrink(300));
    // One alone is never too many.
    let mut single = Channel::new(2, 2);
    single.hold(large(1..=1));
    assert!(single.shrink(50));
    assert_eq!(single.prefetch(), 1);
}
