//! What a filter takes.

use super::Filter;
use crate::glob::Glob;
use crate::ids::ShardId;
use crate::inbox::place::InboxPlace;
use crate::inbox::records::InboxDead;
use crate::message::Message;
use crate::outbox::records::{AttemptRecord, DeadLetter};
use crate::port::dead::DeadKind;
use crate::saga::records::SagaDead;
use crate::streams::dead::StoredDead;
use crate::time::UnixMillis;

impl Filter {
    /// Whether a message matches by itself; `at` is the instant its age counts from.
    pub fn takes_message(&self, message: &Message, at: UnixMillis) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        holds(&self.tenant, message.tenant.as_str())
            && self.topic.as_ref().is_none_or(|glob| glob.matches(message.topic.as_str()))
            && holds(&self.id, message.id.as_str())
            && self.is_for(DeadKind::Message)
            && self.replays.is_none_or(|replays| replays.take(message.replays))
            && self.key.as_ref().is_none_or(|glob| message.key.as_ref().is_some_and(|key| glob.matches(key.as_str())))
            && self
                .annotations
                .iter()
                .all(|(annotation, glob)| message.annotation(*annotation).is_some_and(|text| glob.matches(text)))
            && self.before.is_none_or(|before| at < before)
            && self.after.is_none_or(|after| at > after)
            && self.contents.take(&message.headers, message.payload.inline())
    }

    /// Whether the latest attempt went to a generation that is asked for: by its number or by its digest.
    pub(crate) fn takes_generation(&self, history: &[AttemptRecord]) -> bool {
        let Some(glob) = &self.generation else { return true };
        let plugin = history.last().and_then(|attempt| attempt.plugin.as_deref());
        plugin.is_some_and(|plugin| glob.matches(&plugin.generation.to_string()) || glob.matches(&plugin.digest))
    }

    /// Whether a dead letter matches.
    pub fn takes_dead(&self, dead: &DeadLetter) -> bool {
        let state = dead.state.word();
        self.waits.is_none()
            && self.takes_message(&dead.message, dead.died_at)
            && self.code.as_ref().is_none_or(|glob| glob.matches(&dead.code))
            && self.error.as_ref().is_none_or(|glob| glob.matches(&dead.code, &dead.reason))
            && self.takes_generation(&dead.history)
            && self.state.as_ref().is_none_or(|glob| glob.matches(state) || state == "dead" && glob.matches("failed"))
    }

    /// Whether a stuck saga matches: its topic is `saga:<definition>/<step>`, its id is the root's.
    pub fn takes_dead_saga(&self, dead: &SagaDead) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        let state = dead.state.word();
        holds(&self.tenant, dead.key.tenant.as_str())
            && self.may_take(DeadKind::Saga)
            && self.topic.as_ref().is_none_or(|glob| glob.matches(&dead.topic()))
            && holds(&self.definition, &dead.definition.name)
            && holds(&self.step, &dead.step)
            && holds(&self.id, dead.key.id.as_str())
            && holds(&self.code, &dead.code)
            && self.error.as_ref().is_none_or(|glob| glob.matches(&dead.code, &dead.reason))
            && holds(&self.state, state)
            && self.before.is_none_or(|before| dead.died_at < before)
            && self.after.is_none_or(|after| dead.died_at > after)
    }

    /// Whether a received message matches that couldn't be handled: its topic is its subject, its id is the sender's or its place.
    pub fn takes_dead_inbox(&self, shard: ShardId, dead: &InboxDead) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        let message = &dead.message;
        let is_named = |glob: &Glob| {
            glob.matches(message.id.as_str()) || glob.matches(&InboxPlace { shard, seq: dead.seq }.to_string())
        };
        holds(&self.tenant, message.tenant.as_str())
            && self.may_take(DeadKind::Inbox)
            && self.topic.as_ref().is_none_or(|glob| glob.matches(&message.subject))
            && holds(&self.consumer, dead.consumer.as_str())
            && holds(&self.source, message.source.as_str())
            && holds(&self.context, &message.context)
            && self.id.as_ref().is_none_or(is_named)
            && self.key.as_ref().is_none_or(|glob| message.key.as_ref().is_some_and(|key| glob.matches(key.as_str())))
            && self
                .annotations
                .iter()
                .all(|(annotation, glob)| message.annotation(*annotation).is_some_and(|text| glob.matches(text)))
            && holds(&self.code, &dead.code)
            && self.error.as_ref().is_none_or(|glob| glob.matches(&dead.code, &dead.reason))
            && holds(&self.state, dead.state.word())
            && self.before.is_none_or(|before| dead.died_at < before)
            && self.after.is_none_or(|after| dead.died_at > after)
            && self.contents.take(&message.headers, Some(&message.payload))
    }

    /// Whether an event matches that couldn't be numbered or relayed: its topic is its stream, its id is its place.
    pub fn takes_dead_event(&self, stored: &StoredDead) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        let (stream, why) = (stored.stream(), stored.why());
        holds(&self.tenant, stream.tenant.as_str())
            && self.may_take(DeadKind::Event)
            && self.topic.as_ref().is_none_or(|glob| glob.matches(stream.name.as_str()))
            && holds(&self.id, &stored.place.to_string())
            && self.relay.as_ref().is_none_or(|glob| stored.relay().is_some_and(|relay| glob.matches(relay.as_str())))
            && holds(&self.code, &why.code)
            && self.error.as_ref().is_none_or(|glob| glob.matches(&why.code, &why.reason))
            && holds(&self.state, stored.state.word())
            && self.before.is_none_or(|before| stored.died_at < before)
            && self.after.is_none_or(|after| stored.died_at > after)
    }
}
