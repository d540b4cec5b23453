//! Tests of what comes in.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::wire::{frame, method, short};

/// A delivery in frames, its body in pieces.
fn delivery(tag: u64, body: u64, pieces: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    method(&mut out, CHANNEL, (60, 60), |out| {
        short(out, "c");
        out.extend_from_slice(&tag.to_be_bytes());
        out.push(0);
        short(out, "amq.topic");
        short(out, "orders.created");
    });
    frame(&mut out, HEADER, CHANNEL, |out| {
        out.extend_from_slice(&[0, 60, 0, 0]);
        out.extend_from_slice(&body.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
    });
    for piece in pieces {
        frame(&mut out, codec::BODY, CHANNEL, |out| out.extend_from_slice(piece));
    }
    out
}

fn drained(incoming: &mut Incoming, bytes: &[u8]) -> Vec<Delivered> {
    incoming.push(bytes.to_vec());
    incoming.drain(|_| panic!("something else")).unwrap();
    incoming.delivered.drain(..).collect()
}

#[test]
fn a_delivery_is_put_together_wherever_the_stream_was_cut() {
    let bytes = [delivery(1, 5, &[b"he", b"llo"]), delivery(2, 0, &[])].concat();
    for cut in 0..bytes.len() {
        let mut incoming = Incoming::new(Alarms::default());
        let (first, second) = bytes.split_at(cut);
        let mut all = drained(&mut incoming, first);
        all.extend(drained(&mut incoming, second));
        let told: Vec<_> = all.iter().map(|delivered| (delivered.tag, delivered.body.as_slice())).collect();
        assert_eq!(told, [(1, &b"hello"[..]), (2, b"")]);
        assert_eq!(all.first().unwrap().routing_key, b"orders.created");
    }
}

#[test]
fn a_body_that_is_too_large_is_told_by_its_size() {
    let mut incoming = Incoming::new(Alarms::default());
    let piece = vec![b'x'; 100_000];
    let pieces: Vec<&[u8]> = (0..200).map(|_| piece.as_slice()).collect();
    let all = drained(&mut incoming, &delivery(1, 20_000_000, &pieces));
    let [delivered] = all.as_slice() else { panic!("{}", all.len()) };
    assert_eq!((delivered.omitted, delivered.body.len()), (Some(20_000_000), 0));
}

#[test]
fn what_will_be_given_back_comes_without_its_body() {
    let mut incoming = Incoming::new(Alarms::default());
    incoming.skips_bodies = true;
    let all = drained(&mut incoming, &delivery(1, 5, &[b"he", b"llo"]));
    assert_eq!(all.first().map(|delivered| (delivered.tag, delivered.body.len())), Some((1, 0)));
    incoming.skips_bodies = false;
    assert_eq!(drained(&mut incoming, &delivery(2, 5, &[b"hello"])).first().unwrap().body, b"hello");
}

#[test]
fn the_channel_for_questions_is_closed_with_an_answer_and_costs_no_message_anything() {
    let mut incoming = Incoming::new(Alarms::default());
    let mut closing = Vec::new();
    method(&mut closing, ASIDE, (20, 40), |out| {
        out.extend_from_slice(&404_u16.to_be_bytes());
        short(out, "NOT_FOUND - no queue 'orders'");
        out.extend_from_slice(&[0, 50, 0, 10]);
    });
    incoming.push([closing, delivery(1, 2, &[b"hi"])].concat());
    let mut told = 0;
    incoming.drain(|event| told += u32::from(matches!(event, Event::Reply(ASIDE, Method::ChannelClose(_))))).unwrap();
    assert_eq!((told, incoming.delivered.len(), incoming.refusal.is_none()), (1, 1, true));
    assert!(incoming.take_aside_ended() && !incoming.take_aside_ended());
    let mut answer = Vec::new();
    wire::bare(&mut answer, ASIDE, CHANNEL_CLOSE_OK);
    assert_eq!(incoming.due, answer);
}

#[test]
fn a_server_is_silent_until_it_says_anything() {
    let mut incoming = Incoming::new(Alarms::default());
    let asked = Instant::now();
    assert!(incoming.beat.is_silent_since(asked));
    std::thread::sleep(Duration::from_millis(1));
    incoming.push(Vec::new());
    assert!(incoming.beat.is_silent_since(asked), "nothing came");
    incoming.push(vec![8]);
    assert!(!incoming.beat.is_silent_since(asked));
}
