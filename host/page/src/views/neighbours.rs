//! Messages of a message's key, those before it and those behind.

use maud::{Markup, html};
use waybill_api::messages::MessageView;
use waybill_api::neighbours::{NeighbourView, NeighboursView};
use waybill_core::port::service::MessageState;

use crate::address;
use crate::parts::{Part, fault, state};
use crate::states::of_message;
use crate::text::{count, foreign};
use crate::time::AsOf;

/// Who goes before it, and who waits behind.
pub fn neighbours(message: &MessageView, near: &Part<NeighboursView>, as_of: AsOf) -> Markup {
    let near = match near {
        Err(why) => return fault("Messages of the same key", why),
        Ok(near) if !near.known || (near.before.is_empty() && near.behind.is_empty()) => return html! {},
        Ok(near) => near,
    };
    let others = |further: u64, word: &str| html! { @if further > 0 { li.q { (count(further)) " more " (word) } } };
    let one = |other: &NeighbourView| {
        html! {
            li {
                a.mono href=(address::message(&message.tenant, &other.id)) { (foreign(&other.id)) } " "
                (state(of_message(other.state))) " "
                @if other.state == MessageState::Dead { span.q { "holds the key" } " " }
                span.q.nw { (as_of.at(other.created_at)) }
            }
        }
    };
    html! {
        ol.sheet.pad.near {
            (others(near.further_before, "before"))
            @for other in &near.before { (one(other)) }
            li aria-current="true" { b { "this one" } }
            @for other in &near.behind { (one(other)) }
            (others(near.further_behind, "behind"))
        }
    }
}
