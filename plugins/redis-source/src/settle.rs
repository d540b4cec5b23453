//! Settlements over one connection. What is extended or given back is ours only if the group says so: a claim without a look
//! would take it from a consumer that has it by now.

use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Disposition, Settled, Settlement};
use waybill_plugin::transport::PluginError;
use waybill_redis_wire::command::Commands;
use waybill_redis_wire::resp::Reply;

use crate::connection::{Connection, refused};
use crate::entry::of_pending;
use crate::read::Group;
use crate::state::State;

/// Settles, one answer an item.
///
/// # Errors
/// The connection ended: nothing is known of any.
pub(crate) async fn settle(
    connection: &mut Connection,
    state: &State,
    group: Group<'_>,
    ack_wait: u32,
    items: &[Settlement],
    deadline: Deadline,
) -> Result<Vec<Settled>, PluginError> {
    let mut steps: Vec<Step<'_>> = items.iter().map(|item| Step::of(item, ack_wait)).collect();
    let mut settled: Vec<Settled> = Vec::with_capacity(items.len());
    let mut commands = Commands::default();
    for step in &steps {
        step.first(&mut commands, group);
    }
    // A step without a command has no reply.
    let mut asked = steps.iter_mut().filter(|step| step.is_asked());
    connection
        .ask(commands, deadline, |_, reply| {
            if let Some(step) = asked.next() {
                step.answered(reply, group.consumer);
            }
        })
        .await?;
    let mut commands = Commands::default();
    for step in &steps {
        step.second(&mut commands, group);
    }
    let mut claimed = steps.iter_mut().filter(|step| step.claims());
    connection
        .ask(commands, deadline, |_, reply| {
            if let Some(step) = claimed.next() {
                step.claimed(reply);
            }
        })
        .await?;
    for step in steps {
        if step.ends() {
            state.settled(step.id);
            if step.idle.is_some() && step.outcome == Settled::Done {
                state.sweep();
            }
        }
        settled.push(step.outcome);
    }
    Ok(settled)
}

/// One settlement on its way.
struct Step<'a> {
    id: &'a str,
    /// `XACK`; else the entry is claimed, for which it has to be ours.
    acknowledges: bool,
    /// Milliseconds for which the entry counts as idle from then on: so many that it is taken at the next sweep.
    idle: Option<String>,
    is_ours: bool,
    outcome: Settled,
}

impl<'a> Step<'a> {
    fn of(item: &'a Settlement, ack_wait: u32) -> Self {
        let id = std::str::from_utf8(&item.token).ok().filter(|id| is_entry(id));
        let mut step = Self {
            id: id.unwrap_or_default(),
            acknowledges: false,
            idle: None,
            is_ours: false,
            // What isn't an entry was never handed out by this instance.
            outcome: Settled::Lost,
        };
        match &item.disposition {
            Disposition::Ack => step.acknowledges = true,
            Disposition::Release | Disposition::Nack(None) => step.idle = Some(ack_wait.to_string()),
            Disposition::Extend => {}
            Disposition::Nack(Some(_)) | Disposition::Reject(_) => {
                step.id = "";
                step.outcome = Settled::unsupported();
            }
        }
        step
    }

    fn is_asked(&self) -> bool {
        !self.id.is_empty()
    }

    fn claims(&self) -> bool {
        self.is_ours
    }

    /// Whether it is settled, given back, or with somebody else.
    fn ends(&self) -> bool {
        let is_done = (self.acknowledges || self.idle.is_some()) && self.outcome == Settled::Done;
        self.is_asked() && (is_done || self.outcome == Settled::Lost)
    }

    fn first(&self, commands: &mut Commands, group: Group<'_>) {
        if !self.is_asked() {
            return;
        }
        if self.acknowledges {
            commands.add(&["XACK", group.stream, group.group, self.id]);
        } else {
            commands.add(&["XPENDING", group.stream, group.group, self.id, self.id, "1", group.consumer]);
        }
    }

    fn answered(&mut self, reply: &Reply<'_>, consumer: &str) {
        match reply {
            Reply::Error(text) => self.outcome = Settled::Failed(refused(text).fault),
            // None: it was acknowledged before, or the group is another one.
            Reply::Number(count) if self.acknowledges => {
                self.outcome = if *count > 0 { Settled::Done } else { Settled::Lost };
            }
            reply => self.is_ours = of_pending(reply).any(|(id, owner, _)| id == self.id && owner == consumer),
        }
    }

    fn second(&self, commands: &mut Commands, group: Group<'_>) {
        if !self.claims() {
            return;
        }
        // JUSTID leaves the count of deliveries as it is.
        let mut words = vec!["XCLAIM", group.stream, group.group, group.consumer, "0", self.id];
        if let Some(idle) = &self.idle {
            words.extend(["IDLE", idle]);
        }
        words.push("JUSTID");
        commands.add(&words);
    }

    fn claimed(&mut self, reply: &Reply<'_>) {
        self.outcome = match reply {
            Reply::Error(text) => Settled::Failed(refused(text).fault),
            // An entry that was removed from the stream can't be claimed.
            reply if reply.list().is_empty() => Settled::Lost,
            _ => Settled::Done,
        };
    }
}

/// `1700000000000-3`.
fn is_entry(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(millis, number)| is_number(millis) && is_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_plugin::transport::Fault;

    const GROUP: Group<'static> = Group { stream: "orders", group: "billing", consumer: "a" };

    fn words(commands: &Commands) -> String {
        let text = String::from_utf8_lossy(&commands.bytes).into_owned();
        text.split("\r\n").filter(|word| !word.starts_with(['$', '*'])).collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    fn item(token: &str, disposition: Disposition) -> Settlement {
        Settlement { token: token.as_bytes().to_vec(), disposition }
    }

    fn pending(consumer: &'static str) -> Reply<'static> {
        let entry = [Reply::Text(b"1-0"), Reply::Text(consumer.as_bytes()), Reply::Number(5), Reply::Number(1)];
        Reply::List(vec![Reply::List(entry.into())])
    }

    #[test]
    fn an_acknowledgement_is_one_command_and_tells_whether_it_was_pending() {
        let item = item("1-0", Disposition::Ack);
        for (count, expected) in [(1, Settled::Done), (0, Settled::Lost)] {
            let mut step = Step::of(&item, 30_000);
            let mut commands = Commands::default();
            step.first(&mut commands, GROUP);
            assert_eq!(words(&commands), "XACK orders billing 1-0");
            step.answered(&Reply::Number(count), "a");
            assert_eq!((step.outcome.clone(), step.claims()), (expected, false));
        }
    }

    #[test]
    fn only_what_is_ours_is_extended_or_given_back_and_no_delivery_is_counted() {
        for (disposition, expected) in [
            (Disposition::Extend, "XCLAIM orders billing a 0 1-0 JUSTID"),
            (Disposition::Release, "XCLAIM orders billing a 0 1-0 IDLE 30000 JUSTID"),
        ] {
            let item = item("1-0", disposition);
            let mut step = Step::of(&item, 30_000);
            let mut commands = Commands::default();
            step.first(&mut commands, GROUP);
            assert_eq!(words(&commands), "XPENDING orders billing 1-0 1-0 1 a");
            step.answered(&pending("a"), "a");
            let mut commands = Commands::default();
            step.second(&mut commands, GROUP);
            assert_eq!(words(&commands), expected);
            step.claimed(&Reply::List(vec![Reply::Text(b"1-0")]));
            assert_eq!(step.outcome, Settled::Done);
            let mut other = Step::of(&item, 30_000);
            other.answered(&Reply::List(Vec::new()), "a");
            assert_eq!((other.claims(), other.outcome), (false, Settled::Lost));
        }
    }

    #[test]
    fn what_this_source_can_not_do_is_told_and_no_token_of_another_is_used() {
        for (token, disposition, expected) in [
            ("1-0", Disposition::Reject(Fault::new("A", "b")), Settled::unsupported()),
            ("1-0", Disposition::Nack(Some(1)), Settled::unsupported()),
            ("1-0\r\n", Disposition::Ack, Settled::Lost),
            ("$", Disposition::Extend, Settled::Lost),
        ] {
            let item = item(token, disposition);
            let step = Step::of(&item, 30_000);
            let mut commands = Commands::default();
            step.first(&mut commands, GROUP);
            assert_eq!((commands.count, step.outcome), (0, expected));
        }
    }
}
