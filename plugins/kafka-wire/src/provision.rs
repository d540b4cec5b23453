//! Topics, created when the operator asks for them.

use std::collections::BTreeMap;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::{CreateTopicsRequest, TopicName};
use serde::Deserialize;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Action, Change};
use waybill_plugin::transport::PluginError;

use crate::cluster::{Cluster, Dialer};
use crate::refusal::{NONE, Refusal};
use crate::text;

/// The protocol's number for a topic that isn't there.
const NO_TOPIC: i16 = 3;
const EXISTS: i16 = 36;
/// A number that the server fills in by its own setting.
const AS_THE_SERVER_LIKES: i16 = -1;

/// A topic as the operator wants it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// How many partitions a new one has; none = as the server likes.
    #[serde(default)]
    pub partitions: Option<u32>,
    /// On how many servers each partition is; none = as the server likes.
    #[serde(default)]
    pub replicas: Option<u16>,
    /// Settings of the topic, e.g. `retention.ms`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Looks for topics, and makes those that are missing if `apply`. Answers what was found to do.
///
/// # Errors
/// The cluster refuses, or can't be asked.
pub async fn provision(
    cluster: &mut Cluster,
    dialer: &impl Dialer,
    topics: &[Wanted],
    apply: bool,
    deadline: Deadline,
) -> Result<Vec<Change>, PluginError> {
    let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
    cluster.refresh(dialer, &names, false, deadline).await?;
    let mut changes = Vec::with_capacity(topics.len());
    for wanted in topics {
        let found = match cluster.topic(&wanted.name) {
            Some(Ok(topic)) => Some(topic.leaders.len()),
            Some(Err(refusal)) if refusal.number != NO_TOPIC => return Err(refusal.error()),
            _ => None,
        };
        let mut change = change(wanted, found);
        if apply && change.action == Action::Create && !create(cluster, dialer, wanted, deadline).await? {
            change.action = Action::Keep;
        }
        changes.push(change);
    }
    Ok(changes)
}

/// What has to be done for a topic to be there. Its settings belong to whoever runs the cluster.
fn change(wanted: &Wanted, found: Option<usize>) -> Change {
    let target = format!("topic {}", wanted.name);
    let partitions = wanted.partitions.map(|count| count as usize);
    let (action, detail) = match (found, partitions) {
        (None, Some(count)) => (Action::Create, format!("with {count} partitions")),
        (None, None) => (Action::Create, "with as many partitions as the server likes".to_owned()),
        (Some(found), Some(count)) if found != count => {
            let detail = format!("it has {found} partitions, not {count}: another number sends keys elsewhere");
            (Action::Conflict, detail)
        }
        (Some(_), _) => (Action::Keep, String::new()),
    };
    Change { target, action, detail }
}

/// Creates a topic; false if it is there meanwhile.
async fn create(
    cluster: &mut Cluster,
    dialer: &impl Dialer,
    wanted: &Wanted,
    deadline: Deadline,
) -> Result<bool, PluginError> {
    let setting = |(name, value): (&String, &String)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    let partitions = wanted.partitions.map_or(Some(i32::from(AS_THE_SERVER_LIKES)), |count| i32::try_from(count).ok());
    let replicas = wanted.replicas.map_or(Some(AS_THE_SERVER_LIKES), |count| i16::try_from(count).ok());
    let topic = CreatableTopic::default()
        .with_name(TopicName(text(&wanted.name)))
        .with_num_partitions(partitions.unwrap_or(i32::MAX))
        .with_replication_factor(replicas.unwrap_or(i16::MAX))
        .with_configs(wanted.settings.iter().map(setting).collect());
    let time = i32::try_from(deadline.left().unwrap_or(1)).unwrap_or(i32::MAX);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(time);
    let controller = cluster.controller();
    let mut connection = cluster.take(dialer, controller, deadline).await?;
    let answer = connection.ask(&request, deadline).await?;
    cluster.put(controller, connection);
    for created in &answer.topics {
        let said = created.error_message.as_ref().map(|said| said.as_str());
        match created.error_code {
            NONE => {}
            EXISTS => return Ok(false),
            number => return Err(Refusal::of(number, &format!("topic `{}`", wanted.name), said).error()),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_is_there_is_kept_unless_its_keys_would_go_elsewhere() {
        let wanted =
            |partitions| Wanted { name: "a".to_owned(), partitions, replicas: None, settings: BTreeMap::new() };
        for (partitions, found, action) in [
            (None, None, Action::Create),
            (Some(3), None, Action::Create),
            (None, Some(7), Action::Keep),
            (Some(3), Some(3), Action::Keep),
            (Some(3), Some(7), Action::Conflict),
        ] {
            assert_eq!(change(&wanted(partitions), found).action, action);
        }
    }
}
