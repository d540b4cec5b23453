//! How much waits in the subscription: every broker is asked for its part at once, and the answers are put together as they come. Pure.

use std::collections::HashSet;

use waybill_pulsar_wire::proto::Command;

/// What brokers tell of the subscription's backlog.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Questions without an answer, by the broker's place and the number of the request.
    open: HashSet<(usize, u64)>,
    sum: u64,
    /// Entries that waited when all had answered last.
    pub(crate) known: Option<u64>,
}

impl Backlog {
    /// Begins anew: what wasn't answered until now counts no more.
    pub(crate) fn begin(&mut self) {
        (self.open, self.sum) = (HashSet::new(), 0);
    }

    /// A broker was asked.
    pub(crate) fn ask(&mut self, broker: usize, request: u64) {
        self.open.insert((broker, request));
    }

    /// Takes an answer. Answers whether it was one.
    pub(crate) fn take(&mut self, broker: usize, command: &Command) -> bool {
        let (request, waits) = match command {
            Command::ConsumerStatsResponse(answer) => (answer.request_id, answer.msg_backlog.unwrap_or_default()),
            // Of a consumer that was closed meanwhile.
            Command::Error(error) => (error.request_id, 0),
            _ => return false,
        };
        if !self.open.remove(&(broker, request)) {
            return matches!(command, Command::ConsumerStatsResponse(_));
        }
        self.sum = self.sum.saturating_add(waits);
        if self.open.is_empty() {
            self.known = Some(self.sum);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_pulsar_wire::proto::{ConsumerStatsResponse, Error};

    fn answer(request_id: u64, waits: u64) -> Command {
        let answer = ConsumerStatsResponse { request_id, msg_backlog: Some(waits), ..ConsumerStatsResponse::default() };
        Command::ConsumerStatsResponse(answer)
    }

    #[test]
    fn the_backlog_is_known_when_the_last_broker_has_answered() {
        let mut backlog = Backlog::default();
        backlog.begin();
        for (broker, request) in [(0, 7), (1, 7), (1, 8)] {
            backlog.ask(broker, request);
        }
        assert!(backlog.take(0, &answer(7, 10)) && backlog.take(1, &answer(7, 5)));
        assert_eq!(backlog.known, None);
        let gone = Command::Error(Error { request_id: 8, error: 0, message: String::new() });
        assert!(!backlog.take(0, &gone) && backlog.take(1, &gone));
        assert_eq!(backlog.known, Some(15));
    }

    #[test]
    fn an_answer_to_an_earlier_question_is_left_out() {
        let mut backlog = Backlog::default();
        backlog.ask(0, 1);
        backlog.begin();
        backlog.ask(0, 2);
        assert!(backlog.take(0, &answer(1, 10)) && backlog.take(0, &answer(2, 3)));
        assert_eq!(backlog.known, Some(3));
    }
}
