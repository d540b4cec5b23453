//! A partition's word on a batch.

use waybill_kafka_wire::messages::produce_response::{PartitionProduceResponse, ProduceResponse};
use waybill_kafka_wire::refusal::{DUPLICATE_SEQUENCE, NONE, Refusal};
use waybill_plugin::transport::Receipt;

/// What a word means for its batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is there, its first record at this offset; none = it was there before, nobody says where.
    Taken(Option<i64>),
    /// It isn't, or may not be.
    Refused(Refusal),
    /// The partition isn't in the answer.
    Missing,
}

/// Looks for a partition's word.
pub(crate) fn read(response: &ProduceResponse, topic: &str, partition: i32) -> Answer {
    let topics = response.responses.iter().filter(|of| of.name.0.as_str() == topic);
    let found = topics.flat_map(|of| &of.partition_responses).find(|of| of.index == partition);
    found.map_or(Answer::Missing, |found| word(found, topic))
}

fn word(response: &PartitionProduceResponse, topic: &str) -> Answer {
    match response.error_code {
        NONE => Answer::Taken(Some(response.base_offset).filter(|offset| *offset >= 0)),
        DUPLICATE_SEQUENCE => Answer::Taken(None),
        number => {
            // Of several records the first is said; each is tried by itself then.
            let of_record = response.record_errors.first().and_then(|error| error.batch_index_error_message.as_ref());
            let said = response.error_message.as_ref().or(of_record).map(|said| said.as_str());
            Answer::Refused(Refusal::of(number, &format!("a batch for topic `{topic}`"), said))
        }
    }
}

/// The receipt of a batch's record; `offset` is that of its first one.
pub(crate) fn receipt(topic: &str, partition: i32, offset: Option<i64>, place: usize) -> Receipt {
    let offset = offset.map(|offset| offset.saturating_add(i64::try_from(place).unwrap_or(0)));
    let mut receipt = offset.map_or_else(Receipt::new, |offset| Receipt::with_reference(offset.to_string()));
    receipt.attributes.push(("stream".to_owned(), topic.to_owned()));
    receipt.attributes.push(("partition".to_owned(), partition.to_string()));
    receipt
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_kafka_wire::messages::TopicName;
    use waybill_kafka_wire::messages::produce_response::TopicProduceResponse;
    use waybill_kafka_wire::text;

    fn response(error_code: i16, base_offset: i64) -> ProduceResponse {
        let partition =
            PartitionProduceResponse::default().with_index(3).with_error_code(error_code).with_base_offset(base_offset);
        let topic =
            TopicProduceResponse::default().with_name(TopicName(text("a"))).with_partition_responses(vec![partition]);
        ProduceResponse::default().with_responses(vec![topic])
    }

    #[test]
    fn a_batch_is_there_or_was_there_or_is_not() {
        assert_eq!(read(&response(0, 40), "a", 3), Answer::Taken(Some(40)));
        assert_eq!(read(&response(DUPLICATE_SEQUENCE, -1), "a", 3), Answer::Taken(None));
        assert!(matches!(read(&response(10, -1), "a", 3), Answer::Refused(refusal) if refusal.number == 10));
        assert_eq!(read(&response(0, 40), "a", 2), Answer::Missing);
        assert_eq!(read(&response(0, 40), "b", 3), Answer::Missing);
    }

    #[test]
    fn a_receipt_says_where_the_record_lies() {
        let receipt = receipt("a", 3, Some(40), 2);
        assert_eq!(receipt.broker_ref.as_deref(), Some("42"));
        assert_eq!(
            receipt.attributes,
            [("stream", "a"), ("partition", "3")].map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }
}
