//! What goes to one partition: batches one after the other, so that its messages lie in their order.

use std::collections::VecDeque;

use waybill_kafka_wire::batch::{Batch, Producer};
use waybill_plugin::transport::Fault;

/// Messages of one partition, by their places in the call.
pub(crate) struct Queue {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// What wasn't written yet.
    pub(crate) waiting: VecDeque<usize>,
    /// What is under way.
    pub(crate) flight: Option<Flight>,
    /// Each message goes by itself, to find the one that is refused.
    pub(crate) singly: bool,
    /// Why it stands still.
    pub(crate) trouble: Option<Trouble>,
}

/// Why a partition takes nothing now.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) fault: Fault,
    /// The destination is at fault, and not the connection to it.
    pub(crate) blocks: bool,
}

/// A batch until the partition's word.
pub(crate) struct Flight {
    pub(crate) places: Vec<usize>,
    pub(crate) batch: Batch,
    /// By which the partition knows it when it comes again.
    pub(crate) stamp: Option<(Producer, i32)>,
    /// It was written, and nothing is known of it.
    pub(crate) maybe_there: bool,
    /// It was changed on its way before.
    pub(crate) was_corrupt: bool,
}

impl Queue {
    pub(crate) fn new(topic: &str, partition: i32) -> Self {
        Self {
            topic: topic.to_owned(),
            partition,
            waiting: VecDeque::new(),
            flight: None,
            singly: false,
            trouble: None,
        }
    }

    /// Takes what is under way apart: each of its messages goes by itself now.
    pub(crate) fn split(&mut self, flight: Flight) {
        for place in flight.places.into_iter().rev() {
            self.waiting.push_front(place);
        }
        self.singly = true;
    }

    /// Whether anything is left.
    pub(crate) fn is_open(&self) -> bool {
        self.flight.is_some() || !self.waiting.is_empty()
    }
}
