//! Subscriptions: what they name, who may have them, and their answers as server-sent events. gRPC's are in [`crate::grpc`].
//!
//! | file | holds |
//! |---|---|
//! | `selector` | what a subscription names in its address |
//! | `reader` | a subscription as its peer has it, whatever it is written as |
//! | `feed` | server-sent events: events, heartbeats, the end |
//! | `tickets` | what opens a subscription to who can't send a token |

pub(crate) mod feed;
pub(crate) mod reader;
pub(crate) mod selector;
pub(crate) mod tickets;

use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::port::service::streams::Subscribed;
use waybill_core::streams::access::StreamRight;

use crate::app::App;
use crate::auth::Principal;
use crate::caller::Caller;
use crate::edge::shares;
use crate::limits::RETRY_AFTER_BUSY;
use crate::places::{Full, Place};
use crate::problem::Problem;

/// Streams that are named have to be the caller's to read; of many, what isn't is left out.
pub(crate) fn admit(caller: &Caller, what: &Subscribed) -> Result<(), Problem> {
    if let Subscribed::Streams(names) = what {
        names.iter().try_for_each(|name| caller.0.admit(StreamRight::Read, name))?;
    }
    Ok(())
}

/// A place among the subscriptions, which go on for as long as their peers like.
pub(crate) fn place(app: &App, caller: &Principal) -> Result<Place, Problem> {
    app.subscriptions.take(&shares(app, caller)).map_err(|full| {
        let (code, whose) = match full {
            Full::All => (Code::HTTP_OVERLOADED, "as many subscriptions are open as may be".to_owned()),
            Full::Share { share } => {
                (Code::HTTP_SHARE, format!("{share} subscriptions of a tenant are open, its share"))
            }
        };
        Problem::new(code, format!("{whose}: end some, or try again after a moment")).after(RETRY_AFTER_BUSY)
    })
}

/// A ticket for a subscription of a tenant.
pub(crate) fn ticket(app: &App, caller: &Principal, tenant: &Tenant, selector: &str) -> Result<String, Problem> {
    app.tickets.give(caller, tenant, selector, &shares(app, caller)).map_err(|full| {
        let (code, whose) = match full {
            Full::All => (Code::HTTP_OVERLOADED, ""),
            Full::Share { .. } => (Code::HTTP_SHARE, " of a tenant"),
        };
        let detail = format!("too many tickets{whose} weren't used yet: try again after a moment");
        Problem::new(code, detail).after(RETRY_AFTER_BUSY)
    })
}
