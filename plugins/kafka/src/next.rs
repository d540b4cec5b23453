//! What follows for a batch that a partition refused.

use waybill_kafka_wire::refusal::{Class, Refusal};
use waybill_plugin::transport::{Outcome, PluginError};

use crate::queue::{Flight, Trouble};

/// What is done about a batch that was refused.
#[derive(Debug)]
pub(crate) enum Next {
    /// The whole call fails; the batch stays as it is.
    Fail(PluginError),
    /// It goes again, to whoever leads the partition then.
    Later(Trouble),
    /// It goes again as it is.
    Again,
    /// It goes again by another producer's number.
    Renumber,
    /// Each of its messages goes by itself.
    Apart,
    /// This is the fate of its messages.
    Settle(Outcome),
    /// The same, and this of all that waits for the partition.
    Block { own: Outcome, waiting: Outcome },
}

/// Takes a refusal for a batch. `may_renumber`: another producer's number may still be asked for.
pub(crate) fn after(refusal: &Refusal, flight: &mut Flight, may_renumber: bool) -> Next {
    flight.maybe_there |= refusal.may_be_there();
    let unknown = || Outcome::Retryable(refusal.fault().with_maybe_delivered(true));
    match refusal.class {
        Class::Denied | Class::Unsupported => Next::Fail(refusal.error()),
        Class::Elsewhere | Class::Unknown => {
            Next::Later(Trouble { fault: refusal.fault(), blocks: refusal.class == Class::Elsewhere })
        }
        Class::Producer if may_renumber => Next::Renumber,
        Class::Message if refusal.code == "KAFKA.CORRUPT" && !flight.was_corrupt => {
            flight.was_corrupt = true;
            Next::Again
        }
        Class::Message if flight.places.len() > 1 => Next::Apart,
        // An earlier try may have been taken, whatever is said to this one.
        Class::Message if flight.maybe_there => Next::Settle(unknown()),
        Class::Message => Next::Settle(Outcome::Permanent(refusal.fault())),
        Class::Topic => {
            let waiting = refusal.fault().blocking("");
            Next::Block { own: if flight.maybe_there { unknown() } else { waiting.clone() }, waiting }
        }
        Class::Attempt | Class::Producer => {
            flight.maybe_there = true;
            Next::Settle(unknown())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_kafka_wire::batch::{Filling, Producer};
    use waybill_kafka_wire::compression::Compression;

    use super::*;

    fn flight(places: usize) -> Flight {
        let batch = Filling::default().end(Compression::None).unwrap();
        let stamp = Some((Producer { id: 1, epoch: 0 }, 5));
        Flight { places: (0..places).collect(), batch, stamp, maybe_there: false, was_corrupt: false }
    }

    fn refused(flight: &mut Flight, number: i16) -> Next {
        after(&Refusal::of(number, "a batch", None), flight, false)
    }

    #[test]
    fn a_batch_may_have_been_appended_by_a_leader_that_is_none_any_more() {
        for number in [3, 6, 7, 13, 20, 56] {
            let mut flight = flight(1);
            assert!(matches!(refused(&mut flight, number), Next::Later(_)), "{number}");
            assert!(flight.maybe_there, "{number}: its sequence number is used");
        }
        let mut flight = flight(1);
        assert!(matches!(refused(&mut flight, 19), Next::Later(Trouble { blocks: true, .. })));
        assert!(!flight.maybe_there, "this is said before anything is appended");
    }

    #[test]
    fn what_may_be_there_is_neither_dead_nor_untried() {
        let mut flight = flight(1);
        assert!(matches!(refused(&mut flight, 10), Next::Settle(Outcome::Permanent(_))));
        assert!(matches!(refused(&mut flight, 29), Next::Block { own: Outcome::Blocked(_), .. }));
        refused(&mut flight, 6);
        let is_unknown = |outcome: &Outcome| matches!(outcome, Outcome::Retryable(fault) if fault.maybe_delivered);
        assert!(matches!(refused(&mut flight, 10), Next::Settle(own) if is_unknown(&own)));
        let blocked = refused(&mut flight, 29);
        assert!(
            matches!(&blocked, Next::Block { own, waiting: Outcome::Blocked(_) } if is_unknown(own)),
            "{blocked:?}"
        );
    }

    #[test]
    fn a_corrupt_batch_goes_once_more_and_several_go_apart() {
        let mut flight = flight(2);
        assert!(matches!(refused(&mut flight, 2), Next::Again));
        assert!(matches!(refused(&mut flight, 2), Next::Apart));
    }

    #[test]
    fn a_number_that_is_not_taken_again_and_again_is_an_attempt() {
        let mut flight = flight(1);
        let refusal = Refusal::of(45, "a batch", None);
        assert!(matches!(after(&refusal, &mut flight, true), Next::Renumber));
        assert!(matches!(after(&refusal, &mut flight, false), Next::Settle(Outcome::Retryable(_))));
        assert!(flight.maybe_there);
    }
}
