//! Serves one open instance: takes commands, runs calls beside each other, ticks when idle, says goodbye.
//!
//! The loop runs inside the Store's event loop and stands still while a guest holds the Store, so deadlines are watched
//! from outside it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use wasmtime::component::Accessor;
use waybill_bindings::api::types::CallInfo;
use waybill_core::code::Code;
use waybill_core::port::transport::{Blame, CallError, ErrorKind, Fault};

use super::answer::{AnswerKind, classify};
use super::budget::RestartBudget;
use super::command::{Command, Reply};
use super::crash::Crash;
use super::guest::{Guest, Replied};
use super::in_flight::{InFlight, InFlightCalls};
use super::lane::{Facts, Lane};
use super::open::Live;
use super::ticks::Ticks;
use super::work::{Answer, HANDLE, Work, is_for_people};
use crate::convert;
use crate::cpu::CpuMeter;
use crate::host::{CallRecord, EarlySink, EndpointContext, InstanceState};
use crate::limits::UNAVAILABLE_STREAK_MAX;

/// Time for `close`, within the time the whole endpoint has to end.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) enum Ended {
    /// In good order, or at the host's wish.
    Closed,
    /// The instance asked for a fresh one (fenced, unavailable again and again).
    Recycled(Fault),
    Crashed(Crash),
}

/// What serving needs beside the instance.
pub(super) struct Serving<'a> {
    pub(super) context: &'a EndpointContext,
    pub(super) lane: &'a Lane,
    pub(super) inbox: &'a mut mpsc::Receiver<Command>,
    pub(super) budget: &'a mut RestartBudget,
}

/// Serves until the end, and answers every call that was under way then.
pub(super) async fn serve(live: Live, serving: Serving<'_>) -> Ended {
    let Live { mut store, guest, cpu, facts } = live;
    let Serving { context, lane, inbox, budget } = serving;
    let in_flight = InFlightCalls::default();
    let ended = {
        let mut driver =
            Driver { context, lane, inbox, budget, guest: &guest, facts: &facts, in_flight: &in_flight, cpu: &cpu };
        let run = cpu.charge(store.run_concurrent(async |accessor| driver.drive(accessor).await));
        tokio::select! {
            biased;
            late = in_flight.overdue() => End::Late(late),
            () = lane.abort.cancelled() => End::Aborted,
            run = AssertUnwindSafe(run).catch_unwind() => match run {
                Ok(Ok((ended, culprit))) => End::Told(ended, culprit),
                Ok(Err(trap)) => End::Trapped(trap),
                Err(_) => End::Panicked,
            },
        }
    };
    let (ended, culprit) = match ended {
        End::Told(ended, culprit) => (ended, culprit),
        End::Trapped(trap) => (Ended::Crashed(Crash::from_trap(&trap, store.data())), None),
        End::Panicked => (Ended::Crashed(Crash::host_panic()), None),
        End::Aborted => (Ended::Closed, None),
        End::Late(id) => (Ended::Crashed(Crash::late("the call took longer than its time")), Some(id)),
    };
    // Nothing enters the Store any more.
    drop(store);
    answer_all(context, &in_flight, &ended, culprit);
    ended
}

/// How the Store's event loop ended.
enum End {
    /// With the call that it ended by, if one did.
    Told(Ended, Option<u32>),
    Trapped(wasmtime::Error),
    Panicked,
    Late(u32),
    Aborted,
}

/// Tells everybody who still waits. A trap doesn't say whose it was when several calls ran.
fn answer_all(context: &EndpointContext, in_flight: &InFlightCalls, ended: &Ended, culprit: Option<u32>) {
    let calls = in_flight.end_all();
    let is_several = calls.len() > 1;
    for (id, call) in calls {
        let blame = blame(id, culprit, is_several);
        // Others judge by the message alone, and keep no words that they have no use for.
        let told = if call.function == HANDLE { blame } else { Blame::Own };
        let error = match ended {
            Ended::Crashed(crash) if blame == Blame::Another => crash.sibling_error().blaming(told),
            Ended::Crashed(crash) => crash.call_error().blaming(told),
            Ended::Closed | Ended::Recycled(_) => CallError {
                kind: ErrorKind::TimedOut,
                fault: Fault {
                    maybe_delivered: true,
                    ..Fault::new(Code::PLUGIN_CLOSED, "it ended before the call did")
                },
            },
        };
        count(context, call.function, call.started.elapsed(), Some(error.kind));
        if let Some(reply) = call.reply {
            // A caller that has gone away needs no answer.
            let _ = reply.send(Err(error));
        }
    }
}

/// Counts a call that ended.
fn count(context: &EndpointContext, function: &str, took: Duration, failed: Option<ErrorKind>) {
    match is_for_people(function) {
        true => context.meters.work(took, failed),
        false => context.meters.call(took, failed),
    }
}

/// Whose call it was, for one that was under way.
fn blame(id: u32, culprit: Option<u32>, is_several: bool) -> Blame {
    match culprit {
        None if is_several => Blame::Unknown,
        Some(culprit) if culprit != id => Blame::Another,
        None | Some(_) => Blame::Own,
    }
}

struct Finished {
    id: u32,
    replied: wasmtime::Result<Replied>,
}

/// Why no more work is taken.
enum Stop {
    Closing,
    Recycle(Fault),
}

struct Driver<'a> {
    context: &'a EndpointContext,
    lane: &'a Lane,
    inbox: &'a mut mpsc::Receiver<Command>,
    budget: &'a mut RestartBudget,
    guest: &'a Guest,
    facts: &'a Facts,
    in_flight: &'a InFlightCalls,
    cpu: &'a CpuMeter,
}

impl Driver<'_> {
    /// How it ended, and the call that it ended by.
    async fn drive(&mut self, accessor: &Accessor<InstanceState>) -> (Ended, Option<u32>) {
        let mut calls: FuturesUnordered<BoxFuture<'_, Finished>> = FuturesUnordered::new();
        let guest = self.guest;
        let mut next_id = 1_u32;
        let mut stop: Option<Stop> = None;
        let mut unavailable = 0_u32;
        let mut ticks = Ticks::new(self.facts.tick_every, guest);
        let mut saying_goodbye = false;
        loop {
            if let Some(why) = &stop
                && calls.is_empty()
                && !saying_goodbye
            {
                tracing::debug!(transport = %self.context.name, recycle = matches!(why, Stop::Recycle(_)), "closing an instance");
                let info = self.begin_own(accessor, &mut next_id, "close", Instant::now() + CLOSE_TIMEOUT);
                calls.push(finish(info.id, async move { guest.close(accessor, info).await.map(|()| Replied::Closed) }));
                saying_goodbye = true;
            }
            let limit = if self.budget.half_open() { 1 } else { self.facts.calls as usize };
            let takes = stop.is_none() && calls.len() < limit;
            let tick_at = ticks.next(calls.len(), limit).filter(|_| stop.is_none());
            tokio::select! {
                biased;
                Some(finished) = calls.next(), if !calls.is_empty() => {
                    ticks.ended(finished.id);
                    let record = accessor.with(|mut access| access.get().calls.remove(&finished.id));
                    let told = record.map(|record| record.told).unwrap_or_default();
                    let replied = match finished.replied {
                        Ok(replied) => replied,
                        Err(trap) => {
                            let crash = accessor.with(|mut access| Crash::from_trap(&trap, access.get()));
                            return (Ended::Crashed(crash), Some(finished.id));
                        }
                    };
                    match self.finished(finished.id, replied, &told) {
                        AnswerKind::Proved => {
                            unavailable = 0;
                            self.budget.proved();
                        }
                        AnswerKind::Fine => unavailable = 0,
                        AnswerKind::Failed(error) => {
                            unavailable = if error.kind == ErrorKind::Unavailable { unavailable + 1 } else { 0 };
                            // A fresh instance has a new identity and reads its secrets again.
                            let renew = matches!(error.kind, ErrorKind::Fenced | ErrorKind::Denied);
                            if stop.is_none() && (renew || unavailable >= UNAVAILABLE_STREAK_MAX) {
                                stop = Some(Stop::Recycle(error.fault));
                            }
                        }
                        AnswerKind::Breach(crash) => return (Ended::Crashed(crash), Some(finished.id)),
                        AnswerKind::Goodbye => return match stop {
                            Some(Stop::Recycle(fault)) => (Ended::Recycled(fault), None),
                            Some(Stop::Closing) | None => (Ended::Closed, None),
                        },
                    }
                }
                () = self.context.closing.cancelled(), if !matches!(stop, Some(Stop::Closing)) => {
                    stop = Some(Stop::Closing);
                }
                () = until(tick_at), if tick_at.is_some() => {
                    let deadline = Instant::now() + self.context.limits.tick_timeout;
                    let info = self.begin_own(accessor, &mut next_id, "tick", deadline);
                    ticks.began(info.id);
                    calls.push(finish(info.id, async move { guest.tick(accessor, info).await }));
                }
                command = self.inbox.recv(), if takes => match command {
                    None => stop = Some(Stop::Closing),
                    Some(command) => {
                        let Some(command) = ready(command) else { continue };
                        let Command { work, deadline, reply, .. } = command;
                        if let Some(answer) = self.of_another_session(&work) {
                            // What an instance had is lost with it.
                            let _ = reply.send(Ok(answer));
                            continue;
                        }
                        let info = self.begin(accessor, &mut next_id, &work, deadline, reply);
                        calls.push(finish(info.id, guest.run(accessor, info, work)));
                    }
                },
            }
        }
    }

    /// The answer to work on what another instance had.
    fn of_another_session(&self, work: &Work) -> Option<Answer> {
        if work.session()? == self.facts.session { None } else { work.lost() }
    }

    /// Begins a piece of work.
    fn begin(
        &self,
        accessor: &Accessor<InstanceState>,
        next_id: &mut u32,
        work: &Work,
        deadline: Instant,
        reply: Reply,
    ) -> CallInfo {
        let (function, size, reply) = (work.function(), work.size(), Some(reply));
        let call = InFlight { function, started: Instant::now(), deadline, size, reply };
        let info = self.note(accessor, next_id, call, work.sink());
        CallInfo { traceparent: work.traceparent(), ..info }
    }

    /// Begins a call of the host's own.
    fn begin_own(
        &self,
        accessor: &Accessor<InstanceState>,
        next_id: &mut u32,
        function: &'static str,
        deadline: Instant,
    ) -> CallInfo {
        let call = InFlight { function, started: Instant::now(), deadline, size: 0, reply: None };
        self.note(accessor, next_id, call, None)
    }

    /// Notes a call among those in flight and in the Store, and makes what the guest is told about it.
    fn note(
        &self,
        accessor: &Accessor<InstanceState>,
        next_id: &mut u32,
        call: InFlight,
        sink: Option<EarlySink>,
    ) -> CallInfo {
        let id = *next_id;
        *next_id = next_id.checked_add(1).unwrap_or(1);
        let InFlight { started, deadline, size, .. } = call;
        self.cpu.credit(self.context.limits.cpu_per_call);
        let told = vec![false; if sink.is_some() { size } else { 0 }];
        accessor.with(|mut access| access.get().calls.insert(id, CallRecord { started, deadline, sink, told }));
        self.in_flight.begin(id, call);
        let timeout = convert::to_millis(deadline.saturating_duration_since(started));
        CallInfo { id, timeout, traceparent: None, attributes: Vec::new() }
    }

    /// Checks an answer and hands it to who waits. `told` says of which messages the guest has told already.
    fn finished(&self, id: u32, replied: Replied, told: &[bool]) -> AnswerKind {
        let Some(call) = self.in_flight.end(id) else {
            // Its deadline was found past at the same moment; the watch ends this instance.
            return AnswerKind::Fine;
        };
        let took = call.started.elapsed();
        let (answer, kind) = classify(self.context, self.facts.session, call.function, call.size, replied);
        let failed = match &kind {
            AnswerKind::Failed(error) => Some(error.kind),
            AnswerKind::Breach(crash) => Some(crash.kind),
            _ => None,
        };
        count(self.context, call.function, took, failed);
        if let Some(Ok(answer)) = &answer {
            self.context.meters.tally.answered(answer, told);
        }
        let answer = self.with_notices(answer);
        if let (Some(reply), Some(answer)) = (call.reply, answer) {
            // A caller that has gone away needs no answer.
            let _ = reply.send(answer);
        }
        kind
    }

    /// Puts what a tick told where it is asked for. What was told before a pull and nobody has taken comes with that pull, in
    /// front.
    fn with_notices(&self, answer: Option<Result<Answer, CallError>>) -> Option<Result<Answer, CallError>> {
        let (lane, session) = (self.lane.number, self.facts.session);
        match answer {
            Some(Ok(Answer::Noticed(notices))) => {
                self.lane.notices.tell(lane, session, notices);
                None
            }
            Some(Ok(Answer::Pulled(mut pulled))) => {
                if let Some(mut earlier) = self.lane.notices.take(lane, session) {
                    earlier.then(std::mem::take(&mut pulled.notices));
                    pulled.notices = earlier;
                }
                Some(Ok(Answer::Pulled(pulled)))
            }
            other => other,
        }
    }
}

/// A call's future that remembers its id.
fn finish<'f>(id: u32, call: impl Future<Output = wasmtime::Result<Replied>> + Send + 'f) -> BoxFuture<'f, Finished> {
    Box::pin(async move { Finished { id, replied: call.await } })
}

/// The command, if its caller still waits and there is time left.
fn ready(command: Command) -> Option<Command> {
    if !command.claim.take() {
        return None;
    }
    if command.deadline <= Instant::now() {
        let _ = command.reply.send(Err(super::lane::busy()));
        return None;
    }
    Some(command)
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_call_that_ended_an_instance_is_to_blame() {
        assert_eq!((blame(1, Some(1), true), blame(2, Some(1), true)), (Blame::Own, Blame::Another));
        assert_eq!(blame(2, Some(1), false), Blame::Another, "the other one had its answer before");
        assert_eq!((blame(1, None, true), blame(1, None, false)), (Blame::Unknown, Blame::Own));
    }
}
