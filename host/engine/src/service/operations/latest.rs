//! Which replay put something of a group of dead letters back last, and what became of what it put back. Operations remember their groups,
//! so that no dead letter is read for it.

use std::collections::HashSet;

use waybill_api::dead_letters::DeadGroupView;
use waybill_api::operations::{LastReplayView, OperationService};
use waybill_core::ids::Tenant;
use waybill_core::port::dead::DeadKind;
use waybill_core::port::service::ServiceError;
use waybill_core::port::transact::Operation;

use super::{Outbox, REPLAY};

/// Operations that are looked through for replays.
const LATEST_MAX: usize = 100;
/// Replays whose fates are read.
const FOLLOWED_MAX: usize = 10;

/// Kind, tenant, code and signature.
type Name<'a> = (DeadKind, &'a str, &'a str, &'a str);

pub(super) async fn with_last_replays(
    outbox: &Outbox,
    tenant: Option<&Tenant>,
    mut groups: Vec<DeadGroupView>,
) -> Result<Vec<DeadGroupView>, ServiceError> {
    if groups.is_empty() {
        return Ok(groups);
    }
    let latest = outbox.operations(tenant, LATEST_MAX).await?;
    let replays = latest.iter().filter(|operation| operation.kind == REPLAY && !operation.causes.is_empty());
    let replays: Vec<&Operation> = replays.take(FOLLOWED_MAX).collect();
    for replay in replays {
        let names = names(replay);
        let open = groups.iter_mut().filter(|group| group.last_replay.is_none());
        let touched: Vec<&mut DeadGroupView> = open.filter(|group| names.contains(&name(group))).collect();
        if touched.is_empty() {
            continue;
        }
        let view = LastReplayView::of(replay, outbox.fates(replay).await?);
        for group in touched {
            group.last_replay = Some(view.clone());
        }
    }
    Ok(groups)
}

fn names(replay: &Operation) -> HashSet<Name<'_>> {
    let causes = replay.causes.iter();
    causes.map(|cause| (cause.kind, &*cause.tenant, &*cause.code, &*cause.signature)).collect()
}

fn name(group: &DeadGroupView) -> Name<'_> {
    (group.kind, &*group.tenant, &*group.code, &*group.signature)
}
