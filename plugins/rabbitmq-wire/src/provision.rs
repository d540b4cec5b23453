//! The exchange and the queues that messages go to: looked for, and created when the operator asks for it.
//!
//! AMQP can't change what is there: another type or other arguments are a conflict and left to the operator. Nor can it say
//! which bindings there are, so they are made again each time, which changes nothing where they are.

use std::collections::BTreeMap;

use serde::Deserialize;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Action, Change};
use waybill_plugin::transport::{ErrorKind, PluginError};

use crate::connection::Connection;
use crate::refusal::Refusal;
use crate::text::name;
use crate::wire::{flag_entry, method, number_entry, short, table, text_entry};

/// Code of the server's refusals here.
const CODE: &str = "RABBITMQ.PROVISION";

const EXCHANGE_DECLARE: (u16, u16) = (40, 10);
const QUEUE_DECLARE: (u16, u16) = (50, 10);
const QUEUE_BIND: (u16, u16) = (50, 20);

/// Bits of both declarations.
const PASSIVE: u8 = 1;
const DURABLE: u8 = 2;
/// Bits that mean one thing for an exchange and another for a queue.
const EXCHANGE_AUTO_DELETE: u8 = 4;
const EXCHANGE_INTERNAL: u8 = 8;
const QUEUE_AUTO_DELETE: u8 = 8;

/// What is wanted at the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    exchange: Option<Exchange>,
    #[serde(default)]
    queues: Vec<Queue>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Exchange {
    /// None = the one that messages go to.
    name: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: BTreeMap<String, Argument>,
}

impl Default for Exchange {
    fn default() -> Self {
        let arguments = BTreeMap::new();
        Self { name: None, kind: "topic".to_owned(), durable: true, auto_delete: false, internal: false, arguments }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default = "yes")]
    durable: bool,
    #[serde(default)]
    auto_delete: bool,
    #[serde(default)]
    arguments: BTreeMap<String, Argument>,
    /// Keys by which the queue is bound to the exchange.
    #[serde(default)]
    bindings: Vec<String>,
    /// What it is bound to; none = the exchange that messages go to.
    exchange: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text, a whole number, true or false")]
enum Argument {
    Flag(bool),
    Number(i64),
    Text(String),
}

impl Wanted {
    /// Checks what the types can't say. `usual` is the exchange that messages go to.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn check(&self, usual: &str) -> Result<(), PluginError> {
        let wrong = |path: String, why: &str| Err(PluginError::invalid_config(&path, why));
        if let Some(exchange) = &self.exchange {
            let exchange = exchange.name.as_deref().unwrap_or(usual);
            if let Err(why) = name(exchange) {
                return wrong("provision.exchange.name".to_owned(), why);
            }
            if exchange.is_empty() {
                return wrong("provision.exchange".to_owned(), "is the default exchange, which is always there");
            }
        }
        for (number, queue) in self.queues.iter().enumerate() {
            let path = |part: &str| format!("provision.queues[{number}].{part}");
            if queue.name.is_empty() {
                return wrong(path("name"), "is empty: the name would be made up by the server");
            }
            if let Err(why) = name(&queue.name) {
                return wrong(path("name"), why);
            }
            if !queue.bindings.is_empty() && queue.exchange.as_deref().unwrap_or(usual).is_empty() {
                return wrong(path("bindings"), "are of the default exchange, which knows each queue by its name");
            }
            if let Some(why) = queue.bindings.iter().find_map(|key| name(key).err()) {
                return wrong(path("bindings"), why);
            }
        }
        Ok(())
    }

    /// What has to be there, in the order in which it is made.
    fn things(&self, usual: &str) -> Vec<Thing> {
        let mut things = Vec::new();
        if let Some(exchange) = &self.exchange {
            let Exchange { name, kind, durable, auto_delete, internal, arguments } = exchange.clone();
            let name = name.unwrap_or_else(|| usual.to_owned());
            things.push(Thing::Exchange {
                name,
                kind,
                flags: flags(&[(DURABLE, durable), (EXCHANGE_AUTO_DELETE, auto_delete), (EXCHANGE_INTERNAL, internal)]),
                arguments,
            });
        }
        for queue in &self.queues {
            let mut arguments = queue.arguments.clone();
            if let Some(kind) = &queue.kind {
                arguments.insert("x-queue-type".to_owned(), Argument::Text(kind.clone()));
            }
            let flags = flags(&[(DURABLE, queue.durable), (QUEUE_AUTO_DELETE, queue.auto_delete)]);
            things.push(Thing::Queue { name: queue.name.clone(), flags, arguments });
        }
        for queue in &self.queues {
            let exchange = queue.exchange.as_deref().unwrap_or(usual);
            things.extend(queue.bindings.iter().map(|key| Thing::Binding {
                queue: queue.name.clone(),
                exchange: exchange.to_owned(),
                key: key.clone(),
            }));
        }
        things
    }
}

fn flags(all: &[(u8, bool)]) -> u8 {
    all.iter().filter(|(_, set)| *set).fold(0, |flags, (flag, _)| flags | flag)
}

/// Something that has to be there.
#[derive(Clone, Debug)]
enum Thing {
    Exchange { name: String, kind: String, flags: u8, arguments: BTreeMap<String, Argument> },
    Queue { name: String, flags: u8, arguments: BTreeMap<String, Argument> },
    Binding { queue: String, exchange: String, key: String },
}

impl Thing {
    fn target(&self) -> String {
        match self {
            Self::Exchange { name, .. } => format!("exchange {name}"),
            Self::Queue { name, .. } => format!("queue {name}"),
            Self::Binding { queue, exchange, key } => format!("binding {exchange} -> {queue} ({key})"),
        }
    }

    /// Adds the declaration; `passive` only asks.
    fn declare(&self, out: &mut Vec<u8>, passive: bool) {
        let asks = if passive { PASSIVE } else { 0 };
        let arguments_of = |out: &mut Vec<u8>, arguments: &BTreeMap<String, Argument>| {
            table(out, |out| {
                for (name, argument) in arguments {
                    match argument {
                        Argument::Flag(value) => flag_entry(out, name, *value),
                        Argument::Number(value) => number_entry(out, name, *value),
                        Argument::Text(value) => text_entry(out, name, value),
                    }
                }
            });
        };
        match self {
            Self::Exchange { name, kind, flags, arguments } => {
                method(out, Connection::ASIDE, EXCHANGE_DECLARE, |out| {
                    out.extend_from_slice(&[0, 0]);
                    short(out, name);
                    short(out, kind);
                    out.push(flags | asks);
                    arguments_of(out, arguments);
                })
            }
            Self::Queue { name, flags, arguments } => method(out, Connection::ASIDE, QUEUE_DECLARE, |out| {
                out.extend_from_slice(&[0, 0]);
                short(out, name);
                out.push(flags | asks);
                arguments_of(out, arguments);
            }),
            Self::Binding { queue, exchange, key } => method(out, Connection::ASIDE, QUEUE_BIND, |out| {
                out.extend_from_slice(&[0, 0]);
                for text in [queue, exchange, key] {
                    short(out, text);
                }
                out.push(0);
                table(out, |_| {});
            }),
        }
    }
}

/// Looks what is there of what is wanted, and makes what is missing if `apply`. `usual` is the exchange that messages go to.
/// Answers what was found to do.
///
/// # Errors
/// The server refuses, or can't be asked.
pub async fn provision(
    connection: &mut Connection,
    wanted: &Wanted,
    usual: &str,
    apply: bool,
    deadline: Deadline,
) -> Result<Vec<Change>, PluginError> {
    let mut changes: Vec<Change> = Vec::new();
    for thing in wanted.things(usual) {
        let change = match thing {
            Thing::Binding { .. } => bind(connection, &thing, &changes, apply, deadline).await?,
            _ => declare(connection, &thing, apply, deadline).await?,
        };
        changes.push(change);
    }
    Ok(changes)
}

/// An exchange or a queue.
async fn declare(
    connection: &mut Connection,
    thing: &Thing,
    apply: bool,
    deadline: Deadline,
) -> Result<Change, PluginError> {
    let target = thing.target();
    match connection.ask(deadline, |out| thing.declare(out, true)).await? {
        Err(refusal) if refusal.says_not_found() => {
            if apply {
                let made = connection.ask(deadline, |out| thing.declare(out, false)).await?;
                made.map_err(|refusal| refused(&refusal))?;
            }
            Ok(Change { target, action: Action::Create, detail: String::new() })
        }
        Err(refusal) if refusal.says_conflict() => {
            Ok(Change { target, action: Action::Conflict, detail: refusal.text().to_owned() })
        }
        Err(refusal) => Err(refused(&refusal)),
        // Declared again, what is there is compared and left as it is.
        Ok(()) => match connection.ask(deadline, |out| thing.declare(out, false)).await? {
            Ok(()) => Ok(Change { target, action: Action::Keep, detail: String::new() }),
            Err(refusal) if refusal.says_conflict() => {
                Ok(Change { target, action: Action::Conflict, detail: refusal.text().to_owned() })
            }
            Err(refusal) => Err(refused(&refusal)),
        },
    }
}

/// A binding, once its queue is known to be as wanted. One whose queue is new is new.
async fn bind(
    connection: &mut Connection,
    thing: &Thing,
    changes: &[Change],
    apply: bool,
    deadline: Deadline,
) -> Result<Change, PluginError> {
    let (target, Thing::Binding { queue, exchange, .. }) = (thing.target(), thing) else {
        return Err(PluginError::internal("no binding"));
    };
    let ends = [format!("queue {queue}"), format!("exchange {exchange}")];
    let action = |action| changes.iter().any(|change| change.action == action && ends.contains(&change.target));
    if action(Action::Conflict) {
        let detail = "one of its ends is in conflict".to_owned();
        return Ok(Change { target, action: Action::Conflict, detail });
    }
    if apply {
        connection.ask(deadline, |out| thing.declare(out, false)).await?.map_err(|refusal| refused(&refusal))?;
    }
    if action(Action::Create) {
        return Ok(Change { target, action: Action::Create, detail: String::new() });
    }
    let detail = "AMQP doesn't tell whether it is there: applying makes it where it is missing".to_owned();
    Ok(Change { target, action: Action::Keep, detail })
}

fn refused(refusal: &Refusal) -> PluginError {
    let mut error = refusal.error();
    error.kind = match error.kind {
        ErrorKind::Denied => ErrorKind::Denied,
        _ if refusal.says_not_found() || refusal.says_conflict() => ErrorKind::InvalidConfig,
        _ => ErrorKind::Unavailable,
    };
    CODE.clone_into(&mut error.fault.code);
    error
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn wanted(json: &str) -> Wanted {
        waybill_plugin::config::parse(json).unwrap()
    }

    #[test]
    fn what_is_wanted_is_made_in_an_order_that_works() {
        let wanted = wanted(
            r##"{"exchange":{"arguments":{"alternate-exchange":"lost"}},
                "queues":[{"name":"a","type":"quorum","bindings":["x.#","y"]},{"name":"b","exchange":"other","bindings":["#"]}]}"##,
        );
        wanted.check("orders").unwrap();
        let targets: Vec<String> = wanted.things("orders").iter().map(Thing::target).collect();
        assert_eq!(
            targets,
            [
                "exchange orders",
                "queue a",
                "queue b",
                "binding orders -> a (x.#)",
                "binding orders -> a (y)",
                "binding other -> b (#)"
            ]
        );
    }

    #[test]
    fn a_declaration_is_written_as_the_server_reads_it() {
        let things = wanted(r#"{"queues":[{"name":"q","type":"quorum","arguments":{"x-max-length":7}}]}"#).things("e");
        let mut out = Vec::new();
        things.first().unwrap().declare(&mut out, true);
        let arguments = b"\x0cx-max-lengthl\0\0\0\0\0\0\0\x07\x0cx-queue-typeS\0\0\0\x06quorum";
        let payload = [&b"\0\x32\0\x0a\0\0\x01q\x03\0\0\0\x2e"[..], arguments].concat();
        let mut expected = b"\x01\0\x02\0\0\0".to_vec();
        expected.push(u8::try_from(payload.len()).unwrap());
        expected.extend(payload);
        expected.push(0xce);
        assert_eq!(arguments.len(), 0x2e);
        assert_eq!(out, expected);
    }

    #[test]
    fn what_can_not_be_made_is_refused_with_its_place() {
        for (json, usual, path) in [
            (r#"{"exchange":{}}"#, "", "provision.exchange"),
            (r#"{"queues":[{"name":""}]}"#, "e", "provision.queues[0].name"),
            (r#"{"queues":[{"name":"q"},{"name":"r","bindings":["a"]}]}"#, "", "provision.queues[1].bindings"),
        ] {
            let error = wanted(json).check(usual).unwrap_err();
            assert_eq!(error.fault.attributes, [("path".to_owned(), path.to_owned())], "{json}");
        }
    }
}
