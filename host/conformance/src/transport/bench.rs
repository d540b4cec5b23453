//! A transport with its outside, ready to be sent through; and what an answer of it means to a check.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use waybill_core::ids::Key;
use waybill_core::message::Delivery;
use waybill_core::port::transport::{CallError, ErrorKind, Outcome, OutcomeSink, SendCall, Transport};
use waybill_sandbox::{EndpointSpec, LoadedPlugin, WasmTransport};

use crate::case::Case;
use crate::limits::{CALL_TIMEOUT, RECOVERY_PAUSE, RECOVERY_TRIES};
use crate::outside::Outside;
use crate::report::Verdict;
use crate::sample;
use crate::suite::failed;

pub(super) use crate::endpoint::refused;

/// The plugin under test and the case whose peer it talks to.
pub(super) struct Bench {
    pub(super) plugin: LoadedPlugin,
    pub(super) case: Case,
}

/// A transport that is open, and its outside.
pub(super) struct Running {
    pub(super) transport: Arc<WasmTransport>,
    pub(super) outside: Outside,
}

/// Early results of a batch.
#[derive(Default)]
pub(super) struct RecordedOutcomes(Mutex<Vec<(usize, Outcome)>>);

impl OutcomeSink for RecordedOutcomes {
    fn settled(&self, index: usize, outcome: Outcome) {
        self.0.lock().push((index, outcome));
    }
}

impl RecordedOutcomes {
    pub(super) fn acks(&self) -> usize {
        self.0.lock().iter().filter(|(_, outcome)| matches!(outcome, Outcome::Ack(_))).count()
    }
}

impl Bench {
    pub(super) fn new(plugin: LoadedPlugin, case: Case) -> Self {
        Self { plugin, case }
    }

    /// A bench for another case of the same plugin.
    pub(super) fn with(&self, case: &Case) -> Self {
        Self { plugin: self.plugin.clone(), case: case.clone() }
    }

    /// The case's endpoint with its peer at an address.
    pub(super) fn spec(&self, peer: &str, generation: u32) -> EndpointSpec {
        EndpointSpec { generation, ..crate::endpoint::spec(&self.plugin, &self.case, peer) }
    }

    pub(super) async fn outside(&self) -> Result<Outside, Verdict> {
        crate::endpoint::outside(&self.case).await
    }

    /// Opens it with everything well outside.
    pub(super) async fn start(&self) -> Result<Running, Verdict> {
        let outside = self.outside().await?;
        let transport = self.open(&outside, 1).await?;
        Ok(Running { transport, outside })
    }

    /// Opens a generation at an outside.
    pub(super) async fn open(&self, outside: &Outside, generation: u32) -> Result<Arc<WasmTransport>, Verdict> {
        let spec = self.spec(&outside.address(), generation);
        WasmTransport::start(self.plugin.clone(), spec).await.map_err(refused)
    }

    /// The key of the messages that are all of one.
    pub(super) fn one_key() -> Result<Key, Verdict> {
        Key::new("suite-run").map_err(|error| failed(error.to_string(), "this is the suite's fault: report it"))
    }

    /// Messages of the case's kind, numbered from `first`.
    pub(super) fn batch(&self, outside: &Outside, first: u64, count: usize) -> Result<Vec<Delivery>, Verdict> {
        let templates = self.case.messages.iter().cycle();
        let numbered = (first..).zip(templates).take(count);
        numbered
            .map(|(number, template)| {
                // Many of one kind need ids, keys and payloads of their own.
                let mut template = template.clone();
                if count > self.case.messages.len() {
                    (template.id, template.key) = (None, None);
                }
                sample::delivery(&template, number, &outside.address())
            })
            .collect::<Option<Vec<Delivery>>>()
            .ok_or_else(|| {
                failed("a message of the case has an id, key or topic that can't be one", "correct the case")
            })
    }
}

/// Sends with a time.
pub(super) async fn send_within(
    transport: &WasmTransport,
    batch: Vec<Delivery>,
    timeout: Duration,
) -> (Result<Vec<Outcome>, CallError>, Arc<RecordedOutcomes>) {
    let told = Arc::new(RecordedOutcomes::default());
    let answer =
        transport.send_batch(SendCall::new(0, timeout), batch, Arc::clone(&told) as Arc<dyn OutcomeSink>).await;
    (answer, told)
}

/// Sends, and every message has to end as an acknowledgement.
pub(super) async fn delivered(transport: &WasmTransport, batch: Vec<Delivery>) -> Result<usize, Verdict> {
    let count = batch.len();
    let outcomes = outcomes(transport, batch).await?;
    match outcomes.iter().find(|outcome| !matches!(outcome, Outcome::Ack(_))) {
        None => Ok(count),
        Some(other) => Err(failed(
            format!("the peer took everything, and a message ended as {}", shown(other)),
            "answer `ack` for what the receiver has",
        )),
    }
}

/// Sends, and the call has to answer.
pub(super) async fn outcomes(transport: &WasmTransport, batch: Vec<Delivery>) -> Result<Vec<Outcome>, Verdict> {
    send_within(transport, batch, CALL_TIMEOUT).await.0.map_err(|error| call_failed(&error))
}

/// A call that failed though the peer is well.
pub(super) fn call_failed(error: &CallError) -> Verdict {
    let fix = match error.kind {
        ErrorKind::Contract => "answer exactly one outcome a message, in order",
        ErrorKind::Trapped => "find the panic: the message above says where; answer an outcome or an error instead",
        ErrorKind::TimedOut => "keep the call's time: ask `control.remaining`, and give every wait a time",
        _ => "answer an outcome for each message; fail the whole call only when nothing is known of any",
    };
    failed(format!("the call failed as {:?}: {}", error.kind, sample::describe(&error.fault)), fix)
}

/// What a transport may say while its peer is away: anything that sends the message again and blames nobody for good.
pub(super) fn honest_while_away(
    answer: &Result<Vec<Outcome>, CallError>,
    told: &RecordedOutcomes,
) -> Result<String, Verdict> {
    let lied = || {
        failed(
            "it acknowledged a message that the peer can't have taken",
            "answer `ack` only after the receiver's own word",
        )
    };
    if told.acks() > 0 {
        return Err(lied());
    }
    match answer {
        Ok(outcomes) => {
            for outcome in outcomes {
                match outcome {
                    Outcome::Ack(_) => return Err(lied()),
                    Outcome::Permanent(fault) => {
                        return Err(failed(
                            format!(
                                "it made a message a dead letter because the peer was away ({})",
                                sample::describe(fault)
                            ),
                            "answer `retryable`, or fail the call as `unavailable`",
                        ));
                    }
                    Outcome::Retryable(_) | Outcome::Blocked { .. } | Outcome::Release(_) => {}
                }
            }
            Ok(outcomes.first().map(shown).unwrap_or_default())
        }
        Err(error) => match error.kind {
            ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Cancelled => {
                Ok(format!("{:?}: {}", error.kind, sample::describe(&error.fault)))
            }
            ErrorKind::Denied | ErrorKind::InvalidConfig | ErrorKind::Unsupported => Err(failed(
                format!(
                    "it failed as {:?} ({}), which isn't tried again by itself",
                    error.kind,
                    sample::describe(&error.fault)
                ),
                "answer `unavailable` when the peer can't be reached",
            )),
            ErrorKind::TimedOut => Err(failed(
                "the call's time ended before it answered, so the host dropped the instance",
                "give every wait a time below `control.remaining`",
            )),
            _ => Err(call_failed(error)),
        },
    }
}

/// Tries fresh messages until one is delivered, as the host would; answers how many tries it took.
pub(super) async fn recovers(bench: &Bench, running: &Running, first: u64) -> Result<usize, Verdict> {
    let mut last = String::new();
    for attempt in 1..=RECOVERY_TRIES {
        let batch = bench.batch(&running.outside, first + attempt as u64, 1)?;
        let (answer, told) = send_within(&running.transport, batch, CALL_TIMEOUT).await;
        match &answer {
            Ok(outcomes) if outcomes.iter().all(|outcome| matches!(outcome, Outcome::Ack(_))) => return Ok(attempt),
            // What it had acknowledged early stands, so only the rest is judged.
            _ if told.acks() > 0 => return Ok(attempt),
            _ => last = honest_while_away(&answer, &told)?,
        }
        tokio::time::sleep(RECOVERY_PAUSE).await;
    }
    Err(failed(
        format!("the peer is back, and {RECOVERY_TRIES} tries later nothing is delivered (last: {last})"),
        "connect again when the connection is gone, at the next call at the latest",
    ))
}

/// An outcome in one line.
pub(super) fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ack(receipt) => {
            format!("ack {}", receipt.broker_ref.as_deref().unwrap_or_default()).trim_end().to_owned()
        }
        Outcome::Retryable(fault) => format!("retryable ({})", sample::describe(fault)),
        Outcome::Permanent(fault) => format!("permanent ({})", sample::describe(fault)),
        Outcome::Blocked { fault, .. } => format!("blocked ({})", sample::describe(fault)),
        Outcome::Release(fault) => format!("release ({})", sample::describe(fault)),
    }
}

/// An outcome by its word in a case.
pub(super) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Ack(_) => "ack",
        Outcome::Retryable(_) => "retryable",
        Outcome::Permanent(_) => "permanent",
        Outcome::Blocked { .. } => "blocked",
        Outcome::Release(_) => "release",
    }
}

/// An outcome's code, if it has one.
pub(super) fn code(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Ack(_) => None,
        Outcome::Retryable(fault) | Outcome::Permanent(fault) | Outcome::Release(fault) => Some(&fault.code),
        Outcome::Blocked { fault, .. } => Some(&fault.code),
    }
}
