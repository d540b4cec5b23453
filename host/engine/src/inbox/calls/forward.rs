//! Messages that need no handler: they go on to a topic, or to a saga, in the commit that finishes them.

use waybill_core::ids::ShardId;
use waybill_core::inbox::forward;
use waybill_core::inbox::owner::Call;
use waybill_core::inbox::verdict::{Leavings, Verdict};
use waybill_core::time::UnixMillis;

use crate::inbox::config::{ConsumerConfig, ConsumerTarget, InboundConfig};

/// What becomes of a message: what goes on, or a dead letter, because it can't be made into that and never will be.
pub(super) fn verdict(
    config: &InboundConfig,
    consumer: &ConsumerConfig,
    call: &Call,
    shard: ShardId,
    now: UnixMillis,
) -> Verdict {
    let message = &call.message;
    let made = match &consumer.target {
        ConsumerTarget::Topic(template) => {
            let made = forward::message(template, message, (shard, call.seq), now, config.payload_bytes_max);
            made.map(|message| Leavings { messages: vec![message], ..Leavings::default() })
        }
        _ => {
            let read = |body: &[u8]| match &config.bodies {
                Some(bodies) => bodies.reply(body),
                None => Err("this host reads no such replies".to_owned()),
            };
            forward::to_saga(message, &read).map(|item| Leavings { sagas: vec![item], ..Leavings::default() })
        }
    };
    made.map_or_else(Verdict::Poison, Verdict::Processed)
}
