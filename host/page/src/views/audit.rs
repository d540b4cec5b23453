//! The audit trail: who did what, refusals too.

use maud::{Markup, html};
use waybill_api::status::AuditView;

use super::{Asked, Rows, Saved, option};
use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::list::{Field, list};
use crate::parts::{Part, fault, first_run, in_a_terminal, none_by_filter, of};
use crate::text::{foreign, shortened};
use crate::time::AsOf;

/// Letters of a detail in a list.
const DETAIL_LETTERS: usize = 300;

#[derive(Clone, Debug)]
pub struct Trail {
    pub asked: Asked,
    pub rows: Part<Rows<AuditView>>,
}

pub fn audit(view: &Trail, as_of: AsOf) -> Markup {
    let asked = &view.asked;
    html! {
        (head(&html! { "Audit" }, &html! { p { "What people and the host did, newest first. Events of messages, received messages and sagas come where their kind, an object or a consumer is asked for." } }, None))
        (asked.form(address::AUDIT, "actor=ann kind=Message* object=order-17 consumer=ship since=2026-12-01", as_of))
        @match &view.rows {
            Err(why) => { (fault("The audit trail", why)) }
            Ok(rows) if rows.items.is_empty() && rows.older.is_none() && asked.filter.is_empty() && !asked.is_further => {
                (first_run(Icon::Audit, "Nothing happened yet", "Acts of operators and of the host show here at once.", None))
            }
            Ok(rows) if rows.items.is_empty() => {
                (none_by_filter("line", &asked.filter, address::AUDIT, rows.older.is_some()))
                @if let Some(older) = &rows.older { p.more { a href=(older) { "Older" } } }
            }
            Ok(rows) => {
                @let shown: Vec<_> = rows.items.iter().map(|line| audit_row(line, as_of)).collect();
                (list("Audit", &FIELDS, &shown, Some(&asked.foot(Saved("audit"), shown.len(), rows.older.as_deref()))))
            }
        }
        (in_a_terminal(&format!("waybill audit list{}{}", option("tenant", &asked.tenant), option("filter", &asked.filter))))
    }
}

const FIELDS: [Field; 6] = [
    Field::text("When").class("nw"),
    Field::text("What").name(),
    Field::text("Who").label("by").moves("by"),
    Field::text("To what").class("mono").moves("to"),
    Field::text("Tenant").label("tenant").second_line().moves("tenant"),
    Field::text("Detail").class("full mono"),
];

fn audit_row(line: &AuditView, as_of: AsOf) -> [Markup; 6] {
    [
        as_of.at(line.at),
        of(foreign(&line.kind)),
        of(foreign(&line.actor)),
        html! { (foreign(&shortened(&line.object, DETAIL_LETTERS))) },
        html! { @if let Some(tenant) = &line.tenant { (foreign(tenant)) } },
        of(foreign(&detail(line))),
    ]
}

fn detail(line: &AuditView) -> String {
    if line.detail.is_null() { String::new() } else { shortened(&line.detail.to_string(), DETAIL_LETTERS) }
}
