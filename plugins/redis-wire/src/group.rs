//! Consumer groups, created when the operator asks for them.

use serde::Deserialize;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Action, Change};
use waybill_plugin::transport::{Fault, PluginError};

use crate::command::Commands;
use crate::connection::Connection;
use crate::refusal::{self, shown};
use crate::resp::Reply;

/// Code of the server's refusals here.
const CODE: &str = "REDIS.PROVISION";

/// A consumer group as the operator wants it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Key of its stream.
    pub stream: String,
    /// Name of the group.
    pub group: String,
    /// After which entry a new one begins.
    #[serde(default = "from_the_start")]
    pub start: String,
}

/// After which entry a group begins that is to read everything.
pub fn from_the_start() -> String {
    "0".to_owned()
}

/// What there is of a group.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Group,
    Nothing,
    /// The key holds something else.
    Other(String),
}

/// Looks for a group, and makes it and its stream if `apply`. Answers what was found to do.
///
/// # Errors
/// The server refuses, or can't be asked.
pub async fn provision(
    connection: &mut Connection,
    group: &Group,
    apply: bool,
    deadline: Deadline,
) -> Result<Change, PluginError> {
    let mut change = change(group, &find(connection, group, deadline).await?);
    if apply && change.action == Action::Create && !create(connection, group, deadline).await? {
        // Somebody was faster.
        change.action = Action::Keep;
    }
    Ok(change)
}

/// What has to be done for a group to be there. Where it stands belongs to its consumers.
fn change(wanted: &Group, found: &Found) -> Change {
    let target = format!("group {} of stream {}", wanted.group, wanted.stream);
    let (action, detail) = match found {
        Found::Group => (Action::Keep, String::new()),
        Found::Nothing if wanted.start == "$" => (Action::Create, "begins with what comes from now on".to_owned()),
        Found::Nothing => (Action::Create, format!("begins after entry {}", wanted.start)),
        Found::Other(why) => (Action::Conflict, why.clone()),
    };
    Change { target, action, detail }
}

async fn find(connection: &mut Connection, group: &Group, deadline: Deadline) -> Result<Found, PluginError> {
    let mut commands = Commands::default();
    commands.add(&["XINFO", "GROUPS", &group.stream]);
    let mut found = Found::Nothing;
    connection
        .ask(commands, deadline, |_, reply| {
            found = find_group(reply, &group.group)?;
            Ok(())
        })
        .await?;
    Ok(found)
}

/// A group in the reply to `XINFO GROUPS`.
fn find_group(reply: &Reply<'_>, group: &str) -> Result<Found, PluginError> {
    match reply {
        Reply::List(groups) => {
            let is_there = groups.iter().any(|other| other.get("name").and_then(Reply::text) == Some(group));
            Ok(if is_there { Found::Group } else { Found::Nothing })
        }
        Reply::Error(text) if text.starts_with(b"ERR no such key") => Ok(Found::Nothing),
        Reply::Error(text) if text.starts_with(b"WRONGTYPE") => {
            Ok(Found::Other("the key holds something else than a stream".to_owned()))
        }
        Reply::Error(text) => Err(refused(text)),
        _ => Err(PluginError::unavailable(CODE, "the answer to XINFO GROUPS is no list")),
    }
}

/// Creates a group, and its stream if it isn't there; false if it is there meanwhile.
async fn create(connection: &mut Connection, group: &Group, deadline: Deadline) -> Result<bool, PluginError> {
    let mut commands = Commands::default();
    commands.add(&["XGROUP", "CREATE", &group.stream, &group.group, &group.start, "MKSTREAM"]);
    let mut created = true;
    connection
        .ask(commands, deadline, |_, reply| {
            match reply {
                Reply::Error(text) if text.starts_with(b"BUSYGROUP") => created = false,
                Reply::Error(text) => return Err(refused(text)),
                _ => {}
            }
            Ok(())
        })
        .await?;
    Ok(created)
}

/// A refusal, with its class and under this code.
fn refused(text: &[u8]) -> PluginError {
    let refusal = refusal::sort(text).error();
    let mut error = PluginError::new(
        refusal.kind,
        Fault::new(CODE, format!("the server refused: {}", shown(&String::from_utf8_lossy(text)))),
    );
    error.fault.attributes = refusal.fault.attributes;
    error
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_plugin::transport::ErrorKind;

    use super::*;
    use crate::resp;

    fn group(start: &str) -> Group {
        Group { stream: "orders".to_owned(), group: "billing".to_owned(), start: start.to_owned() }
    }

    fn found(bytes: &[u8]) -> Result<Found, PluginError> {
        find_group(&resp::next(bytes).unwrap().unwrap().0, "billing")
    }

    #[test]
    fn a_group_is_found_by_its_name_in_both_protocols() {
        let map =
            b"*2\r\n%2\r\n$4\r\nname\r\n$4\r\nmail\r\n$7\r\npending\r\n:0\r\n%1\r\n$4\r\nname\r\n$7\r\nbilling\r\n";
        assert_eq!(found(map).unwrap(), Found::Group);
        let list = b"*1\r\n*4\r\n$4\r\nname\r\n$7\r\nbilling\r\n$7\r\npending\r\n:0\r\n";
        assert_eq!(found(list).unwrap(), Found::Group);
        assert_eq!(found(b"*0\r\n").unwrap(), Found::Nothing);
        assert_eq!(found(b"-ERR no such key\r\n").unwrap(), Found::Nothing);
        assert!(matches!(found(b"-WRONGTYPE x\r\n").unwrap(), Found::Other(_)));
        let refused = found(b"-NOPERM this user has no permissions to run the 'xinfo|groups' command\r\n").unwrap_err();
        assert_eq!((refused.kind, refused.fault.code.as_str()), (ErrorKind::Denied, CODE));
        assert_eq!(found(b"+OK\r\n").unwrap_err().kind, ErrorKind::Unavailable);
    }

    #[test]
    fn what_is_there_is_kept_and_what_is_something_else_is_left_alone() {
        for (start, found, action) in [
            ("0", Found::Nothing, Action::Create),
            ("$", Found::Nothing, Action::Create),
            ("$", Found::Group, Action::Keep),
            ("0", Found::Other("why".to_owned()), Action::Conflict),
        ] {
            let change = change(&group(start), &found);
            assert_eq!((change.action, change.target.as_str()), (action, "group billing of stream orders"));
        }
    }
}
