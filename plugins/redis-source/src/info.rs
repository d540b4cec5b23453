//! What the server tells of a group: whether it is there, how far it is behind, and what it can't read any more; and of its stream, whether
//! it is the one that was there before.

use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::PluginError;
use waybill_redis_wire::command::Commands;
use waybill_redis_wire::resp::Reply;

use crate::connection::{Connection, refused};
use crate::read::Group;

/// A group as the server tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// Entries that nobody has read; none: a server before version 7, or it can't tell.
    pub(crate) lag: Option<u64>,
    /// Entries that were removed before anybody read them, as far as the server can tell.
    pub(crate) overtaken: u64,
    pub(crate) stream: Stream,
}

/// Asks for the group.
///
/// # Errors
/// It or its stream isn't there, the server refuses, or the connection is of no more use.
pub(crate) async fn info(
    connection: &mut Connection,
    group: Group<'_>,
    deadline: Deadline,
) -> Result<Info, PluginError> {
    let mut commands = Commands::default();
    commands.add(&["XINFO", "GROUPS", group.stream]).add(&["XINFO", "STREAM", group.stream]);
    let mut told = (Ok(None), Ok(Stream::default()));
    let answer = connection.ask(commands, deadline, |place, reply| match place {
        0 => told.0 = of_groups(reply, group.group),
        _ => told.1 = Stream::of(reply),
    });
    answer.await?;
    let missing =
        || refused(format!("NOGROUP No such key '{}' or consumer group '{}'", group.stream, group.group).as_bytes());
    let found = told.0?.ok_or_else(missing)?;
    let stream = told.1?;
    Ok(Info { lag: found.lag, overtaken: found.overtaken(&stream), stream })
}

/// What `XINFO GROUPS` tells of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    lag: Option<u64>,
    /// Entries that it has delivered, counted from the first of the stream; none: the server can't tell.
    read: Option<u64>,
    last: (u64, u64),
}

fn of_groups(reply: &Reply<'_>, group: &str) -> Result<Option<Found>, PluginError> {
    match reply {
        Reply::Error(text) if text.starts_with(b"ERR no such key") => return Ok(None),
        Reply::Error(text) => return Err(refused(text)),
        _ => {}
    }
    let is_it = |other: &&Reply<'_>| other.get("name").and_then(Reply::text) == Some(group);
    Ok(reply.list().iter().find(is_it).map(|found| Found {
        lag: number(found, "lag"),
        read: number(found, "entries-read"),
        last: found.get("last-delivered-id").and_then(id).unwrap_or_default(),
    }))
}

/// What `XINFO STREAM` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) length: u64,
    /// Entries that were ever added; none: a server before version 7.
    pub(crate) added: Option<u64>,
    pub(crate) first: Option<(u64, u64)>,
    /// The id that was given out last.
    pub(crate) last: (u64, u64),
}

impl Stream {
    fn of(reply: &Reply<'_>) -> Result<Self, PluginError> {
        match reply {
            Reply::Error(text) if text.starts_with(b"ERR no such key") => Ok(Self::default()),
            Reply::Error(text) => Err(refused(text)),
            reply => Ok(Self {
                length: number(reply, "length").unwrap_or_default(),
                added: number(reply, "entries-added"),
                first: reply.get("first-entry").and_then(|entry| entry.list().first()).and_then(id),
                last: reply.get("last-generated-id").and_then(id).unwrap_or_default(),
            }),
        }
    }

    /// Whether it was made anew since this was told of it: it has nothing of then, and too few entries for that, or it never lost one. A
    /// replica that took over and lacks the latest entries has earlier ones.
    pub(crate) fn is_another_than(&self, before: &Self) -> bool {
        let (Some(added), Some(then)) = (self.added, before.added) else { return false };
        let has_nothing_of_then = then > 0 && self.first.is_none_or(|first| first > before.last);
        has_nothing_of_then && (added < then || added == self.length)
    }
}

impl Found {
    /// Entries that left the stream before they were read. Only where everything that was read has left it, too: then those
    /// that are gone and those that were read are counted from the same first one.
    fn overtaken(&self, stream: &Stream) -> u64 {
        let is_behind = self.last != (0, 0) && stream.first.is_none_or(|first| first > self.last);
        match (is_behind, stream.added, self.read) {
            (true, Some(added), Some(read)) => added.saturating_sub(stream.length).saturating_sub(read),
            _ => 0,
        }
    }
}

fn number(map: &Reply<'_>, key: &str) -> Option<u64> {
    map.get(key).and_then(Reply::number).and_then(|number| u64::try_from(number).ok())
}

/// An entry's id as two numbers, which compare as entries do.
fn id(reply: &Reply<'_>) -> Option<(u64, u64)> {
    let (millis, number) = reply.text()?.split_once('-')?;
    Some((millis.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn group(last: &'static str, read: Option<i64>) -> Reply<'static> {
        Reply::List(vec![Reply::List(vec![
            Reply::Text(b"name"),
            Reply::Text(b"billing"),
            Reply::Text(b"last-delivered-id"),
            Reply::Text(last.as_bytes()),
            Reply::Text(b"entries-read"),
            read.map_or(Reply::Null, Reply::Number),
            Reply::Text(b"lag"),
            Reply::Number(4),
        ])])
    }

    fn stream(length: i64, added: i64, first: &'static str) -> Reply<'static> {
        Reply::List(vec![
            Reply::Text(b"length"),
            Reply::Number(length),
            Reply::Text(b"entries-added"),
            Reply::Number(added),
            Reply::Text(b"first-entry"),
            Reply::List(vec![Reply::Text(first.as_bytes()), Reply::List(Vec::new())]),
            Reply::Text(b"last-generated-id"),
            Reply::Text(b"40-0"),
        ])
    }

    fn overtaken(group: &Reply<'_>, stream: &Reply<'_>) -> u64 {
        of_groups(group, "billing").unwrap().unwrap().overtaken(&Stream::of(stream).unwrap())
    }

    #[test]
    fn a_group_is_found_with_what_it_is_behind() {
        let found = of_groups(&group("7-0", Some(7)), "billing").unwrap().unwrap();
        assert_eq!((found.lag, found.read, found.last), (Some(4), Some(7), (7, 0)));
        assert_eq!(of_groups(&group("7-0", None), "mail").unwrap(), None);
        assert_eq!(of_groups(&Reply::Error(b"ERR no such key"), "billing").unwrap(), None);
        assert_eq!(of_groups(&Reply::Error(b"WRONGTYPE x"), "billing").unwrap_err().fault.code, "REDIS.WRONG_TYPE");
    }

    #[test]
    fn a_stream_that_was_made_anew_has_nothing_of_the_one_before() {
        let read = |length, added, first| Stream::of(&stream(length, added, first)).unwrap();
        let before = read(3, 10, "38-0");
        assert_eq!((before.last, before.first), ((40, 0), Some((38, 0))));
        let empty = Stream { added: Some(0), ..Stream::default() };
        for (now, expected) in [
            (before, false),
            // It went on: what was there is still there, or was trimmed since.
            (read(9, 16, "38-0"), false),
            (read(2, 30, "58-0"), false),
            // A replica took over that lacks the last two.
            (read(1, 8, "38-0"), false),
            (empty, true),
            (read(4, 4, "50-0"), true),
            // As many as before, and more: the first of them is younger, and none was ever removed.
            (read(20, 20, "50-0"), true),
            (read(1, 6, "55-0"), true),
        ] {
            assert_eq!(now.is_another_than(&before), expected, "{now:?}");
        }
        assert!(!before.is_another_than(&empty), "it had no entry");
        let older = Stream { added: None, ..read(4, 4, "50-0") };
        assert!(!older.is_another_than(&before), "a server before version 7 doesn't count");
    }

    #[test]
    fn what_left_the_stream_unread_is_counted_where_the_server_can_tell() {
        // Ten were added, seven read, four are left: none is missing.
        assert_eq!(overtaken(&group("7-0", Some(7)), &stream(3, 10, "8-0")), 0);
        // Twenty were added, seven read, four are left: nine are gone unread.
        assert_eq!(overtaken(&group("7-0", Some(7)), &stream(4, 20, "17-0")), 9);
        assert_eq!(overtaken(&group("7-0", Some(7)), &stream(14, 20, "7-0")), 0);
        assert_eq!(overtaken(&group("0-0", Some(0)), &stream(4, 20, "17-0")), 0, "a new group begins at what is kept");
        assert_eq!(overtaken(&group("7-0", None), &stream(4, 20, "17-0")), 0);
    }
}
