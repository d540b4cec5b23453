//! One pull over one connection: what this consumer left behind, then what others left behind, then what is new.

use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::PluginError;
use waybill_redis_wire::command::Commands;
use waybill_redis_wire::resp::Reply;

use crate::connection::{Connection, refused};
use crate::entry::{Entry, Mapping, of_list, of_pending, of_read};
use crate::state::{FIRST, State, Step};

/// The names that commands about a group's entries begin with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    pub(crate) stream: &'a str,
    pub(crate) group: &'a str,
    pub(crate) consumer: &'a str,
}

/// How much to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) entries: u32,
    /// Milliseconds to wait for the first new one.
    pub(crate) wait: u32,
}

/// Reads until there is something, or nothing more is there. Answers whether everything was read.
///
/// # Errors
/// The server refuses, or the connection is of no more use.
pub(crate) async fn read(
    connection: &mut Connection,
    state: &State,
    group: Group<'_>,
    mapping: Mapping<'_>,
    room: Room,
    deadline: Deadline,
) -> Result<bool, PluginError> {
    loop {
        let step = state.step();
        let is_new = step == Step::New;
        let read = ask(connection, &step, group, mapping, room, deadline).await?;
        let is_drained = is_new && read.entries.len() < room.entries as usize;
        match (step, read.next) {
            (Step::Own(_), next) => state.own(next),
            (Step::Others(_), next) => state.swept(next.as_deref().unwrap_or(FIRST)),
            (Step::New, _) => {}
        }
        let removed = state.read(read.entries);
        if !removed.is_empty() {
            state.removed(removed.len())?;
            acknowledge(connection, group, &removed, deadline).await?;
        }
        if is_new || state.has_some() {
            if !is_new && let Some((first, last)) = state.range() {
                count(connection, state, group, (&first, &last), room.entries, deadline).await?;
            }
            return Ok(is_drained);
        }
    }
}

/// What a step brought, and where the next one of its kind begins.
struct Brought {
    entries: Vec<Entry>,
    next: Option<String>,
}

async fn ask(
    connection: &mut Connection,
    step: &Step,
    group: Group<'_>,
    mapping: Mapping<'_>,
    room: Room,
    deadline: Deadline,
) -> Result<Brought, PluginError> {
    let mut brought = Ok(Brought { entries: Vec::new(), next: None });
    let commands = command(step, group, mapping, room);
    let answer = connection.ask(commands, deadline, |_, reply| {
        brought = match (step, reply) {
            (_, Reply::Error(text)) => Err(refused(text)),
            (Step::Others(_), reply) => Ok(Brought {
                entries: reply.list().get(1).map(|list| of_list(list, mapping)).unwrap_or_default(),
                next: reply.list().first().and_then(Reply::text).map(str::to_owned),
            }),
            (_, reply) => {
                let entries = of_read(reply, mapping);
                let next = entries.last().map(|entry| entry.id.clone());
                Ok(Brought { entries, next })
            }
        };
    });
    answer.await?;
    brought
}

fn command(step: &Step, group: Group<'_>, mapping: Mapping<'_>, room: Room) -> Commands {
    let Group { stream, group, consumer } = group;
    let (count, wait, idle) = (room.entries.to_string(), room.wait.to_string(), mapping.ack_wait.to_string());
    let mut commands = Commands::default();
    match step {
        Step::Others(from) => {
            commands.add(&["XAUTOCLAIM", stream, group, consumer, &idle, from, "COUNT", &count]);
        }
        Step::Own(after) => {
            commands.add(&["XREADGROUP", "GROUP", group, consumer, "COUNT", &count, "STREAMS", stream, after]);
        }
        Step::New => {
            let mut words = vec!["XREADGROUP", "GROUP", group, consumer, "COUNT", &count];
            // Zero would be for ever.
            if room.wait > 0 {
                words.extend(["BLOCK", &wait]);
            }
            words.extend(["STREAMS", stream, ">"]);
            commands.add(&words);
        }
    }
    commands
}

/// Learns how often the entries that were read were delivered before.
async fn count(
    connection: &mut Connection,
    state: &State,
    group: Group<'_>,
    (first, last): (&str, &str),
    most: u32,
    deadline: Deadline,
) -> Result<(), PluginError> {
    let mut commands = Commands::default();
    // Those in hand may lie between them.
    let most = most.saturating_add(u32::try_from(state.in_hand().len()).unwrap_or(u32::MAX)).to_string();
    commands.add(&["XPENDING", group.stream, group.group, first, last, &most, group.consumer]);
    connection
        .ask(commands, deadline, |_, reply| {
            for (id, _, count) in of_pending(reply) {
                state.counted(id, count);
            }
        })
        .await
}

/// Entries that the stream has lost would be pending for ever.
async fn acknowledge(
    connection: &mut Connection,
    group: Group<'_>,
    ids: &[String],
    deadline: Deadline,
) -> Result<(), PluginError> {
    let mut words = vec!["XACK", group.stream, group.group];
    words.extend(ids.iter().map(String::as_str));
    let mut commands = Commands::default();
    commands.add(&words);
    connection.ask(commands, deadline, |_, _| {}).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_a_command_of_its_own() {
        let group = Group { stream: "orders", group: "billing", consumer: "waybill-shop" };
        let mapping = Mapping { stream: "orders", payload_field: "payload", ack_wait: 30_000, most: 1_000 };
        let room = Room { entries: 50, wait: 250 };
        let words = |step: &Step, room: Room| {
            let bytes = command(step, group, mapping, room).bytes;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.split("\r\n")
                .filter(|word| !word.starts_with(['$', '*']))
                .collect::<Vec<_>>()
                .join(" ")
                .trim()
                .to_owned()
        };
        for (step, room, expected) in [
            (Step::Own("7-0".to_owned()), room, "XREADGROUP GROUP billing waybill-shop COUNT 50 STREAMS orders 7-0"),
            (Step::Others("0-0".to_owned()), room, "XAUTOCLAIM orders billing waybill-shop 30000 0-0 COUNT 50"),
            (Step::New, room, "XREADGROUP GROUP billing waybill-shop COUNT 50 BLOCK 250 STREAMS orders >"),
            (Step::New, Room { wait: 0, ..room }, "XREADGROUP GROUP billing waybill-shop COUNT 50 STREAMS orders >"),
        ] {
            assert_eq!(words(&step, room), expected);
        }
    }
}
