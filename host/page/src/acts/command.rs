//! An act in a terminal.

use super::{Act, Field, On, Target};
use crate::parts::quoted;

impl Act {
    /// The same in a terminal. Of many with what a plan counted until when, which is acted on exactly.
    pub fn command(self, target: &Target, planned: Option<(&str, u64)>) -> String {
        let about = self.about();
        let mut line = format!("waybill {}", about.verb);
        let mut add = |flag: &str, value: &str| {
            if !value.is_empty() {
                line.push_str(&format!(" {flag}{}", quoted(value)));
            }
        };
        let ids = target.picks.iter().map(|pick| pick.id.as_str());
        match self {
            Self::RelaySeek => {
                add("", &target.id);
                add("", if target.stream.is_empty() { "STREAM" } else { &target.stream });
                add("--to ", "latest");
            }
            Self::RowsReplay => {
                add("--table ", &target.id);
                add("", "KEY");
            }
            Self::SagaSignal => {
                add("", &target.id);
                add("", "NAME");
            }
            _ if target.is_many() => add("--filter ", &target.filter),
            _ => {
                add("", &target.id);
                ids.for_each(|id| add("", id));
            }
        }
        if about.fields.contains(&Field::StepNeeded) {
            add("--step ", if target.step.is_empty() { "STEP" } else { &target.step });
        }
        if about.on.has_tenant() || self == Self::RelaySeek {
            let of_picks = target.picks.first().map_or("", |pick| pick.tenant.as_str());
            add("--tenant ", if target.tenant.is_empty() { of_picks } else { &target.tenant });
        }
        if about.on == On::DeadLetter && !target.is_many() {
            add("--kind ", &target.kind);
        }
        if let Some((before, count)) = planned {
            add("--before ", before);
            add("--expect-count ", &count.to_string());
        }
        if self == Self::MessageReschedule {
            add("--in ", "0s");
        }
        let takes_reason = about.fields.iter().any(|field| matches!(field, Field::Reason | Field::ReasonNeeded));
        if takes_reason {
            line.push_str(if self == Self::DeadQuarantine { " --note '…'" } else { " --reason '…'" });
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_for_a_terminal_names_target_and_plan() {
        let many = Target::matching("acme", "code=HTTP.* age>1h");
        let planned = Some(("2026-12-01T14:00:00.000Z", 240));
        let line = Act::DeadReplay.command(&many, planned);
        let expected = "waybill dead replay --filter 'code=HTTP.* age>1h' --tenant acme --before 2026-12-01T14:00:00.000Z \
                        --expect-count 240 --reason '…'";
        assert_eq!(line, expected);
        let skip = Target { step: "charge".into(), ..Target::one("acme", "order 1") };
        let expected = "waybill saga skip 'order 1' --step charge --tenant acme --reason '…'";
        assert_eq!(Act::SagaSkip.command(&skip, None), expected);
        assert_eq!(Act::ConfigurationReload.command(&Target::default(), None), "waybill config reload");
        assert_eq!(Act::TransportProbe.command(&Target::named("bus"), None), "waybill transport probe bus");
    }
}
