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
    /// Bytes that a pull hands over.
    pub(crate) bytes: u32,
    /// Milliseconds to wait for the first new one.
    pub(crate) wait: u32,
}

/// Reads until there is enough, or nothing more is there. Answers whether everything was read.
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
        let Some(entries) = state.count(room.entries, room.bytes) else { return Ok(false) };
        let wait = if state.has_some() { 0 } else { room.wait };
        let step = state.step();
        let is_new = step == Step::New;
        let read = ask(connection, &step, group, mapping, Asked { entries, wait }, deadline).await?;
        let is_drained = is_new && read.entries.len() < entries as usize;
        let range = range(&read.entries);
        match (step, read.next) {
            (Step::Own(_), next) => state.own(next),
            (Step::Others(_), next) => state.swept(next.as_deref().unwrap_or(FIRST)),
            (Step::New, _) => {}
        }
        let mut removed = state.read(read.entries);
        let unacknowledged = removed.len();
        removed.extend(state.not_in_hand(read.removed));
        if !removed.is_empty() {
            state.removed(removed.len())?;
            removed.truncate(unacknowledged);
        }
        if !removed.is_empty() {
            acknowledge(connection, group, &removed, deadline).await?;
        }
        if let Some((first, last)) = range.filter(|_| !is_new) {
            count(connection, state, group, (&first, &last), entries, deadline).await?;
        }
        if is_drained || (state.has_some() && !is_new) {
            return Ok(is_drained);
        }
    }
}

/// First and last entry.
fn range(entries: &[Entry]) -> Option<(String, String)> {
    Some((entries.first()?.id.clone(), entries.last()?.id.clone()))
}

/// How much one command asks for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    entries: u32,
    wait: u32,
}

/// What a step brought, and where the next one of its kind begins.
#[derive(Debug, Default)]
struct Brought {
    entries: Vec<Entry>,
    next: Option<String>,
    /// Entries that the stream has lost and the server has taken off the group's list.
    removed: Vec<String>,
}

async fn ask(
    connection: &mut Connection,
    step: &Step,
    group: Group<'_>,
    mapping: Mapping<'_>,
    asked: Asked,
    deadline: Deadline,
) -> Result<Brought, PluginError> {
    let mut brought = Ok(Brought::default());
    let commands = command(step, group, mapping, asked);
    let answer = connection.ask(commands, deadline, |_, reply| {
        brought = match reply {
            Reply::Error(text) => Err(refused(text)),
            reply => Ok(brought_by(step, reply, mapping)),
        };
    });
    answer.await?;
    brought
}

fn brought_by(step: &Step, reply: &Reply<'_>, mapping: Mapping<'_>) -> Brought {
    if let Step::Others(_) = step {
        let texts = |reply: &Reply<'_>| reply.list().iter().filter_map(Reply::text).map(str::to_owned).collect();
        return Brought {
            entries: reply.list().get(1).map(|list| of_list(list, mapping)).unwrap_or_default(),
            next: reply.list().first().and_then(Reply::text).map(str::to_owned),
            // From Redis 7 on.
            removed: reply.list().get(2).map(texts).unwrap_or_default(),
        };
    }
    let entries = of_read(reply, mapping);
    let next = entries.last().map(|entry| entry.id.clone());
    Brought { entries, next, removed: Vec::new() }
}

fn command(step: &Step, group: Group<'_>, mapping: Mapping<'_>, asked: Asked) -> Commands {
    let Group { stream, group, consumer } = group;
    let (count, wait, idle) = (asked.entries.to_string(), asked.wait.to_string(), mapping.ack_wait.to_string());
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
            if asked.wait > 0 {
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
        let asked = Asked { entries: 50, wait: 250 };
        let words = |step: &Step, asked: Asked| {
            let bytes = command(step, group, mapping, asked).bytes;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.split("\r\n")
                .filter(|word| !word.starts_with(['$', '*']))
                .collect::<Vec<_>>()
                .join(" ")
                .trim()
                .to_owned()
        };
        for (step, asked, expected) in [
            (Step::Own("7-0".to_owned()), asked, "XREADGROUP GROUP billing waybill-shop COUNT 50 STREAMS orders 7-0"),
            (Step::Others("0-0".to_owned()), asked, "XAUTOCLAIM orders billing waybill-shop 30000 0-0 COUNT 50"),
            (Step::New, asked, "XREADGROUP GROUP billing waybill-shop COUNT 50 BLOCK 250 STREAMS orders >"),
            (Step::New, Asked { wait: 0, ..asked }, "XREADGROUP GROUP billing waybill-shop COUNT 50 STREAMS orders >"),
        ] {
            assert_eq!(words(&step, asked), expected);
        }
    }

    #[test]
    fn what_a_sweep_finds_removed_is_told_beside_what_it_takes() {
        let mapping = Mapping { stream: "orders", payload_field: "payload", ack_wait: 30_000, most: 1_000 };
        let fields = Reply::List(vec![Reply::Text(b"payload"), Reply::Text(b"hello")]);
        let entries = Reply::List(vec![Reply::List(vec![Reply::Text(b"7-0"), fields])]);
        let of_seven = vec![Reply::Text(b"8-0"), entries, Reply::List(vec![Reply::Text(b"3-0"), Reply::Text(b"4-1")])];
        let brought = brought_by(&Step::Others("0-0".to_owned()), &Reply::List(of_seven), mapping);
        assert_eq!((brought.entries.len(), brought.next.as_deref()), (1, Some("8-0")));
        assert_eq!(brought.removed, ["3-0", "4-1"]);
        let of_six = Reply::List(vec![Reply::Text(b"0-0"), Reply::List(Vec::new())]);
        assert!(brought_by(&Step::Others("0-0".to_owned()), &of_six, mapping).removed.is_empty());
    }
}
