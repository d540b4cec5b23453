//! What has to hold, over the evidence alone.

use std::collections::BTreeMap;

use super::service::Called;

/// Steps of every saga, in order.
pub const STEPS: [&str; 3] = ["reserve", "charge", "ship"];

/// Id of a saga.
pub fn id(index: usize) -> String {
    format!("order-{index:04}")
}

/// The step at which a saga is refused for good; none = it completes.
pub fn refused_at(saga: &str) -> Option<&'static str> {
    let number: usize = saga.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    match number % 5 {
        0 => STEPS.get(number / 5 % STEPS.len()).copied(),
        _ => None,
    }
}

/// Calls that were made again.
pub fn repeated(calls: &[Called]) -> usize {
    calls.iter().filter(|call| call.attempt > 1).count()
}

/// One sentence for everything that doesn't hold.
pub fn broken(ended: &[(String, String)], calls: &[Called]) -> Vec<String> {
    let mut by_saga: BTreeMap<&str, Vec<&Called>> = BTreeMap::new();
    for call in calls {
        by_saga.entry(&call.saga).or_default().push(call);
    }
    let mut broken = Vec::new();
    for (id, state) in ended {
        let calls = by_saga.remove(id.as_str()).unwrap_or_default();
        let expected = if refused_at(id).is_some() { "cancelled" } else { "completed" };
        if state != expected {
            broken.push(format!("{id} is {state}, it had to be {expected}"));
        }
        broken.extend(saga(id, &calls).into_iter().map(|what| format!("{id}: {what}")));
    }
    broken.extend(by_saga.keys().map(|id| format!("{id} was called and isn't there")));
    broken
}

fn saga(id: &str, calls: &[&Called]) -> Vec<String> {
    let mut broken = Vec::new();
    let done = |step: &str, way: &str| {
        calls.iter().position(|call| call.step == step && call.way == way && call.status == 200)
    };
    let any = |step: &str, way: &str| calls.iter().any(|call| call.step == step && call.way == way);
    for call in calls.iter().filter(|call| call.key != format!("{id}/{}/{}", call.step, call.way)) {
        broken.push(format!("{} {} came with the key {}", call.way, call.step, call.key));
    }
    let refused = refused_at(id);
    let last = refused.and_then(|refused| STEPS.iter().position(|step| *step == refused)).unwrap_or(STEPS.len());
    for (index, step) in STEPS.iter().enumerate() {
        match index.cmp(&last) {
            std::cmp::Ordering::Less => {
                if done(step, "execute").is_none() {
                    broken.push(format!("{step} was never done"));
                }
                if refused.is_some() && done(step, "compensate").is_none() {
                    broken.push(format!("{step} was done and never undone"));
                }
            }
            // A call that was refused while the host died has an unknown result, so it may be undone too.
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater if any(step, "execute") || any(step, "compensate") => {
                broken.push(format!("{step} was called although an earlier step was refused"));
            }
            std::cmp::Ordering::Greater => {}
        }
        if refused.is_none() && any(step, "compensate") {
            broken.push(format!("{step} was undone although the saga completed"));
        }
    }
    for pair in STEPS.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let first = calls.iter().position(|call| call.step == after && call.way == "execute");
        if first.is_some() && first < done(before, "execute") {
            broken.push(format!("{after} was called before {before} was done"));
        }
        let (undone, later) = (done(before, "compensate"), done(after, "compensate"));
        let first = calls.iter().position(|call| call.step == before && call.way == "compensate");
        if undone.is_some() && later.is_some() && first < later {
            broken.push(format!("{before} was undone before {after}"));
        }
    }
    broken
}
