//! What counts as progress of a connection.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use http_body_util::BodyExt;

use super::*;

const WRITE: Duration = Duration::from_secs(60);

/// The sizes of the pieces of an answer of so many bytes over HTTP/2.
async fn pieces(write_timeout: Duration, bytes: usize) -> Vec<usize> {
    pieces_of(Progress::new(write_timeout).begin().ended_by(Some(Arc::default())), bytes).await
}

async fn pieces_of(exchange: Exchange, bytes: usize) -> Vec<usize> {
    let mut answer = exchange.answered(Response::new(Body::from(vec![b'x'; bytes])));
    let mut sizes = Vec::new();
    while !answer.body().is_end_stream() {
        let left = bytes - sizes.iter().sum::<usize>();
        assert_eq!(answer.body().size_hint().exact(), u64::try_from(left).ok());
        sizes.push(answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap().len());
    }
    sizes
}

#[tokio::test]
async fn an_answer_goes_out_in_pieces_and_its_last_byte_alone() {
    assert_eq!(pieces(WRITE, 2 * ANSWER_PIECE_MAX).await, [ANSWER_PIECE_MAX, ANSWER_PIECE_MAX - 1, 1]);
    assert_eq!(pieces(WRITE, ANSWER_PIECE_MAX + 1).await, [ANSWER_PIECE_MAX, 1]);
    assert_eq!(pieces(WRITE, 2).await, [1, 1]);
    assert_eq!(pieces(WRITE, 1).await, [1]);
    assert!(pieces(WRITE, 0).await.is_empty());
    // Within one second a peer that takes the least rate takes twice as much.
    assert_eq!(pieces(Duration::from_secs(1), 1024).await, [512, 511, 1]);
    assert_eq!(pieces(Duration::ZERO, 1024).await, [ANSWER_PIECE_MIN, 1023 - ANSWER_PIECE_MIN, 1]);
}

#[tokio::test]
async fn over_http_1_a_small_answer_is_one_piece() {
    let exchange = || Progress::new(WRITE).begin().ended_by(None);
    assert_eq!(pieces_of(exchange(), 2).await, [2]);
    assert_eq!(pieces_of(exchange(), 2 * ANSWER_PIECE_MAX).await, [ANSWER_PIECE_MAX, ANSWER_PIECE_MAX]);
}

#[tokio::test(start_paused = true)]
async fn an_exchange_ends_alone_if_it_can() {
    let progress = Progress::new(WRITE);
    let end = Arc::new(Notify::new());
    let answer = |exchange: Exchange| exchange.answered(Response::new(Body::from("unread")));
    let alone = answer(progress.begin().ended_by(Some(Arc::clone(&end))));
    assert_eq!(progress.give_up(WRITE), GivenUp::Streams(0));
    tokio::time::advance(WRITE).await;
    assert_eq!(progress.give_up(WRITE), GivenUp::Streams(1));
    assert!(futures::poll!(Box::pin(end.notified())).is_ready());
    assert_eq!(progress.give_up(WRITE), GivenUp::Streams(0), "it is told once");
    let with_connection = answer(progress.begin().ended_by(None));
    tokio::time::advance(WRITE).await;
    assert_eq!(progress.give_up(WRITE), GivenUp::Connection);
    drop((alone, with_connection));
}

/// Otherwise a large answer could be held for hours.
#[tokio::test(start_paused = true)]
async fn an_answer_of_which_a_piece_is_taken_now_and_then_ends_when_its_whole_time_is_over() {
    let progress = Progress::new(WRITE);
    let body = Body::from(vec![b'x'; 8 * ANSWER_PIECE_MAX]);
    let end = Some(Arc::new(Notify::new()));
    let mut answer = progress.begin().ended_by(end).answered(Response::new(body));
    // At the least rate a piece takes 16 s.
    let at_rate = Duration::from_secs((ANSWER_PIECE_MAX / ANSWER_RATE_MIN) as u64);
    let whole = WRITE + at_rate * 8;
    let slow = WRITE - Duration::from_secs(1);
    let mut passed = Duration::ZERO;
    while passed + slow < whole {
        assert!(answer.body_mut().frame().await.is_some());
        tokio::time::advance(slow).await;
        passed += slow;
        assert_eq!(progress.give_up(WRITE), GivenUp::Streams(0), "after {passed:?}");
    }
    assert!(answer.body_mut().frame().await.is_some());
    tokio::time::advance(whole - passed).await;
    assert_eq!(progress.give_up(WRITE), GivenUp::Streams(1));
    assert_eq!(progress.give_up(WRITE), GivenUp::Streams(0), "it is told once");
    assert!(!answer.body().is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_taken_at_the_least_rate_is_never_given_up() {
    let progress = Progress::new(WRITE);
    let body = Body::from(vec![b'x'; 100 * ANSWER_PIECE_MAX]);
    let mut answer = progress.begin().answered(Response::new(body));
    while answer.body_mut().frame().await.is_some() {
        tokio::time::advance(Duration::from_secs((ANSWER_PIECE_MAX / ANSWER_RATE_MIN) as u64)).await;
        assert_eq!(progress.give_up(WRITE), GivenUp::Streams(0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_byte_now_and_then_is_no_progress() {
    let progress = Progress::new(WRITE);
    let socket = Watched::new((), Arc::clone(&progress));
    let note = |taken| drop(socket.note(2 * ANSWER_PIECE_MAX, taken));
    note(Poll::Pending);
    let since = progress.stalled_since();
    assert!(since.is_some());
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 1..ANSWER_PIECE_MAX {
        note(Poll::Ready(Ok(1)));
        note(Poll::Pending);
        assert_eq!(progress.stalled_since(), since);
    }
    note(Poll::Ready(Ok(1)));
    assert!(progress.stalled_since().is_none(), "a whole piece is");
    note(Poll::Pending);
    assert!(progress.stalled_since() > since);
    note(Poll::Ready(Ok(1)));
    assert!(progress.stalled_since().is_some(), "bytes count from when it stood still");
    note(Poll::Ready(Ok(2 * ANSWER_PIECE_MAX)));
    assert!(progress.stalled_since().is_none(), "so is all there was");
}

#[tokio::test]
async fn an_answer_is_the_peers_turn_until_it_is_taken() {
    let progress = Progress::new(WRITE);
    assert!(progress.idle_since().is_some() && progress.stalled_since().is_none());
    let exchange = progress.begin();
    assert!(progress.idle_since().is_none(), "a request is being worked on");
    assert!(progress.stalled_since().is_none(), "work is ours");
    let answer = exchange.answered(Response::new(Body::from("done")));
    assert!(progress.stalled_since().is_some());
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
    assert!(progress.idle_since().is_some() && progress.stalled_since().is_none());
}

#[tokio::test]
async fn a_body_that_waits_for_us_does_not_stand_still() {
    let progress = Progress::new(WRITE);
    let never = Body::from_stream(futures::stream::pending::<Result<Bytes, io::Error>>());
    let mut answer = progress.begin().answered(Response::new(never));
    assert!(futures::poll!(answer.body_mut().frame()).is_pending());
    assert!(progress.stalled_since().is_none() && progress.idle_since().is_none());
    drop(answer);
    assert!(progress.idle_since().is_some());
}

#[tokio::test]
async fn a_socket_that_takes_nothing_is_noticed_and_forgotten_when_it_does() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let progress = Progress::new(WRITE);
    let (ours, mut theirs) = tokio::io::duplex(4);
    let mut ours = Watched::new(ours, Arc::clone(&progress));
    let mut writing = Box::pin(ours.write_all(b"12345678"));
    assert!(futures::poll!(writing.as_mut()).is_pending());
    let since = progress.stalled_since().unwrap();
    assert!(futures::poll!(writing.as_mut()).is_pending());
    assert_eq!(progress.stalled_since(), Some(since), "it began with the first write");
    let mut all = [0; 8];
    let (read, written) = tokio::join!(theirs.read_exact(&mut all), writing);
    assert!(read.is_ok() && written.is_ok() && progress.stalled_since().is_none());
}
