//! The list of messages.

use maud::{Markup, html};
use waybill_api::messages::MessageView;

use super::{Asked, Rows, Saved};
use crate::acts::{self, Act, Target};
use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::list::{Field, list};
use crate::parts::{Part, fault, first_run, id_link, in_a_terminal, mono, none_by_filter, of, state, tabs};
use crate::states::of_message;
use crate::text::foreign;
use crate::time::AsOf;

/// The list of messages.
#[derive(Clone, Debug)]
pub struct Messages {
    pub asked: Asked,
    /// Newest first, else by what they wait for.
    pub is_newest_first: bool,
    pub rows: Part<Rows<MessageView>>,
}

/// The list of messages.
pub fn messages(view: &Messages, as_of: AsOf) -> Markup {
    let asked = &view.asked;
    let order = |by: &str| {
        address::with(address::MESSAGES, &[("tenant", &asked.tenant), ("filter", &asked.filter), ("sort", by)])
    };
    let flag = if view.is_newest_first { " --newest" } else { "" };
    let ways = [
        ("Newest first", order(""), view.is_newest_first),
        ("What waits first", order("state"), !view.is_newest_first),
    ];
    html! {
        (head(&html! { "Messages" }, &html! { p { "What was taken and isn’t dead: it waits, is being sent, or is done and kept for a while." } }, Some(&on_all(asked))))
        (asked.form(address::MESSAGES, "state=pending topic=bus:orders.* key=42 age>1h", as_of))
        (tabs("Order", &ways))
        @match &view.rows {
            Err(why) => { (fault("Messages", why)) }
            Ok(rows) if rows.items.is_empty() && rows.older.is_none() && asked.filter.is_empty() && !asked.is_further => {
                (first_run(Icon::Messages, "No message yet", "Send one and it shows here at once.",
                    Some("waybill send --topic http://127.0.0.1:9000/orders --payload '{\"order\":1}'")))
            }
            Ok(rows) if rows.items.is_empty() => {
                (none_by_filter("message", &asked.filter, address::MESSAGES, rows.older.is_some()))
                @if let Some(older) = &rows.older { p.more { a href=(older) { "Older" } } }
            }
            Ok(rows) => {
                @let shown: Vec<_> = rows.items.iter().map(|message| message_row(message, as_of)).collect();
                (list("Messages", &FIELDS, &shown, Some(&asked.foot(Saved("messages"), shown.len(), rows.older.as_deref()))))
            }
        }
        (in_a_terminal(&format!("{}{flag}", asked.command("outbox list"))))
    }
}

/// What can be done to those of them that wait, and the way to a new one.
fn on_all(asked: &Asked) -> Markup {
    html! {
        (acts::link(Act::MessageSend, &Target::of(&asked.tenant), asked.may))
        (asked.on_all(&[Act::MessageReschedule, Act::MessageCancel]))
    }
}

const FIELDS: [Field; 6] = [
    Field::text("Id"),
    Field::text("State").class("end").moves("state"),
    Field::text("Topic").class("mono").moves("topic"),
    Field::text("Key").class("mono").label("key").moves("key"),
    Field::text("Tenant").label("tenant").moves("tenant"),
    Field::number("Taken"),
];

fn message_row(message: &MessageView, as_of: AsOf) -> [Markup; 6] {
    [
        id_link(&address::message(&message.tenant, &message.id), &message.id),
        html! {
            (state(of_message(message.state)))
            @if let Some(waiting) = &message.waiting { span.sub { (foreign(waiting.on.as_str())) } }
        },
        of(foreign(&message.topic)),
        mono(message.key.as_deref()),
        of(foreign(&message.tenant)),
        as_of.at(message.created_at),
    ]
}
