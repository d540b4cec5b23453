//! The author's own cases, and the order of outcomes, which only a case with different ones can show.

use waybill_core::message::Delivery;
use waybill_core::port::transport::{CallError, Outcome};

use super::bench::{Bench, call_failed, code, send_within, shown, word};
use crate::case::{Case, CaseMessage};
use crate::limits::CALL_TIMEOUT;
use crate::report::Verdict;
use crate::sample;
use crate::suite::{CaseResult, Suite, failed, not_run};

/// Runs each case, and the one with different outcomes also backwards.
pub(super) async fn all(suite: &mut Suite, bench: &Bench, cases: &[Case]) {
    let cases = cases.iter().filter(|case| !case.messages.is_empty());
    for case in cases.clone() {
        let name = format!("case: {}", case.head.name);
        suite.check(&name, "what the author expects", run(&bench.with(case))).await;
    }
    let different = cases.clone().find(|case| {
        let mut words = case.messages.iter().map(|message| &message.expect);
        let first = words.next();
        words.any(|word| Some(word) != first)
    });
    suite
        .check("outcomes-in-order", "outcomes stand in the order of their messages", async {
            let Some(case) = different else {
                return Err(not_run("no case expects different outcomes in one batch: add one to tests/"));
            };
            let mut backwards = case.clone();
            backwards.messages.reverse();
            run(&bench.with(&backwards)).await.map(|seen| format!("backwards: {seen}"))
        })
        .await;
}

pub(super) async fn key_runs_cut(suite: &mut Suite, bench: &Bench, cases: &[Case]) {
    let promise = "what follows a message of its key that isn't acknowledged is released";
    suite.check("key-runs-cut", promise, cut_run(bench, cases)).await;
}

/// A message that the peer doesn't take, and one behind it that it would.
async fn cut_run(bench: &Bench, cases: &[Case]) -> CaseResult {
    let of =
        |case: &Case, wanted: fn(&str) -> bool| case.messages.iter().find(|message| wanted(&message.expect)).cloned();
    let both = cases.iter().find_map(|case| {
        let refused = of(case, |word| !["ack", "error"].contains(&word))?;
        Some((case, refused, of(case, |word| word == "ack")?))
    });
    let Some((case, refused, taken)) = both else {
        return Err(not_run("no case has a message that is taken beside one that isn't: add one to tests/"));
    };
    let bench = bench.with(case);
    let outside = bench.outside().await?;
    let transport = bench.open(&outside, 1).await?;
    let key = Bench::one_key()?;
    let made = (1..).zip([&refused, &taken]).map(|(number, template)| {
        sample::delivery(template, number, &outside.address()).map(|delivery| sample::with_key(delivery, &key))
    });
    let batch: Option<Vec<Delivery>> = made.collect();
    let batch =
        batch.ok_or_else(|| failed("a message has an id, key or topic that can't be one", "correct the case"))?;
    let (answer, _) = send_within(&transport, batch, CALL_TIMEOUT).await;
    let outcomes = answer.map_err(|error| call_failed(&error))?;
    match outcomes.as_slice() {
        [first, Outcome::Release(_)] if word(first) == refused.expect => Ok(format!("{}, release", word(first))),
        other => Err(failed(
            format!(
                "one that is {} and one of its key behind it ended as {}",
                refused.expect,
                other.iter().map(shown).collect::<Vec<_>>().join(", ")
            ),
            "answer `release` for what follows a message of its key that isn't acknowledged, and don't send it; or don't name `key-runs`",
        )),
    }
}

async fn run(bench: &Bench) -> CaseResult {
    let expected = &bench.case.messages;
    let whole_call = expected.iter().any(|message| message.expect == "error");
    let outside = bench.outside().await?;
    let transport = match bench.open(&outside, 1).await {
        Ok(transport) => transport,
        // A call that fails as a whole may well be `open`.
        Err(Verdict::Failed { reason, .. }) if whole_call => return error_as_expected(&reason, expected),
        Err(verdict) => return Err(verdict),
    };
    let batch: Option<Vec<Delivery>> =
        (1..).zip(expected).map(|(number, message)| sample::delivery(message, number, &outside.address())).collect();
    let batch =
        batch.ok_or_else(|| failed("a message has an id, key or topic that can't be one", "correct the case"))?;
    let (answer, _) = send_within(&transport, batch, CALL_TIMEOUT).await;
    match answer {
        Ok(outcomes) if !whole_call => compare(expected, &outcomes),
        Ok(outcomes) => {
            let shown: Vec<String> = outcomes.iter().map(shown).collect();
            Err(failed(format!("the call was expected to fail, and answered {}", shown.join(", ")), FIX))
        }
        Err(error) if whole_call => error_as_expected(&in_words(&error), expected),
        Err(error) => Err(call_failed(&error)),
    }
}

/// What to do about a case that isn't met.
const FIX: &str = "correct the plugin, or the case if it expects the wrong thing";

fn in_words(error: &CallError) -> String {
    format!("{:?}: {}", error.kind, sample::describe(&error.fault))
}

fn error_as_expected(said: &str, expected: &[CaseMessage]) -> CaseResult {
    match expected.iter().find_map(|message| message.code.as_ref()) {
        Some(code) if !said.contains(code.as_str()) => {
            Err(failed(format!("expected an error with code {code}, and it said {said}"), FIX))
        }
        _ => Ok(said.to_owned()),
    }
}

fn compare(expected: &[CaseMessage], outcomes: &[Outcome]) -> CaseResult {
    for ((number, message), outcome) in (1..).zip(expected).zip(outcomes) {
        let word_fits = message.expect == word(outcome);
        let code_fits = message.code.as_deref().is_none_or(|wanted| code(outcome) == Some(wanted));
        if !word_fits || !code_fits {
            let code = message.code.as_deref().map(|code| format!(" with code {code}")).unwrap_or_default();
            let wanted = format!("{}{code}", message.expect);
            return Err(failed(format!("message {number}: expected {wanted}, was {}", shown(outcome)), FIX));
        }
    }
    Ok(outcomes.iter().map(word).collect::<Vec<_>>().join(", "))
}
