//! What a guest makes the host hold for it. In a process of its own, whose peak memory is looked at; the server isn't in it.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use futures::future::join_all;
use serde_json::json;
use waybill_core::port::transport::{SendCall, Transport};
use waybill_tests::guests;

use crate::support::*;
use crate::{by_itself, has_passed};

/// The product's: the system's keeps much of what is given back to it, by the order of calls.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Bytes of one answer: as much as a guest may be sent of one.
const ANSWER_BYTES: usize = 256 * 1024;
/// Guests at work at once; each asks for 2,000 answers in one call.
const GUESTS: u32 = 8;
/// Memory of a guest that asks for too much, in bytes: little, so that the host's part is what is measured.
const MEMORY_BYTES: usize = 4 * 1024 * 1024;
/// What the host may take beyond what it had: the answers on their way (64 MiB), the guests' own memory (8 that trap and their
/// successors, 4 MiB each), and as much again for connections and the allocator. Unbounded it is 4 GiB of answers; 512 MiB with 256 in
/// a call, or when their place is given back before the guests have them.
const EXTRA_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Address of the server, told to the child.
const SERVER: &str = "WAYBILL_TEST_ANSWERS_AT";

/// Answers every request with as much as is taken, at once.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {ANSWER_BYTES}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + ANSWER_BYTES, b'x');
        let answer: &'static [u8] = answer.leak();
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut bytes = [0_u8; 4096];
                while stream.read(&mut bytes).is_ok_and(|read| read > 0) {
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Most memory this process ever had, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_large_answers_take_a_bounded_part_of_the_host() {
    let Ok(address) = std::env::var(SERVER) else {
        let mut child = by_itself("guest_memory::thousands_of_large_answers_take_a_bounded_part_of_the_host");
        return has_passed(&child.env(SERVER, server().to_string()).output().await.unwrap());
    };
    let granted = format!("http://{address}");
    let config = |amount: usize| json!({ "address": address, "amount": amount });
    let named = |name: &str, amount, memory_bytes| {
        let mut spec = granting(config(amount), &[&granted]);
        (spec.settings.name, spec.settings.instances) = (name.to_owned(), GUESTS);
        spec.settings.grants.limits.memory_bytes = Some(memory_bytes);
        spec
    };
    let hoarder = start(guests::HOARDS_ANSWERS, named("hoarder", 2_000, MEMORY_BYTES)).await;
    let neighbour = start(guests::HOARDS_ANSWERS, named("neighbour", 10, 4 * MEMORY_BYTES)).await;
    assert_eq!(seen(&neighbour).await, format!("10 whole, 0 cut, 0 none, {} bytes", 10 * ANSWER_BYTES));
    let before = peak();

    // What they get doesn't fit into their own memory: most calls trap, and all of them end.
    let calls = (0..GUESTS * 2).map(|number| {
        let hoarder = &hoarder;
        async move {
            let sink = std::sync::Arc::new(RecordedOutcomes::default());
            Transport::send_batch(&**hoarder, SendCall::new(number % GUESTS, AMPLE), batch(1), sink).await
        }
    });
    let beside = async {
        for _ in 0..20 {
            let seen = seen(&neighbour).await;
            assert_eq!(
                seen,
                format!("10 whole, 0 cut, 0 none, {} bytes", 10 * ANSWER_BYTES),
                "the neighbour isn't affected"
            );
        }
    };
    let (ended, ()) = tokio::join!(join_all(calls), beside);
    let extra = peak() - before;
    println!("{} MiB before, {} MiB more at the peak, {} calls ended", before >> 20, extra >> 20, ended.len());
    assert!(extra <= EXTRA_BYTES_MAX, "{} MiB more", extra >> 20);
    the_host_still_serves().await;
}
