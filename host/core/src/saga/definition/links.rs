//! What a definition names outside itself: sub-sagas and steps of participants.

use std::sync::Arc;

use super::problem::{Position, Problem, Problems, Severity, nearest};
use super::{Action, Definition, DefinitionSet, Parsed};
use crate::saga::limits::DEPTH_MAX;
use crate::step_address::StepAddress;

impl DefinitionSet {
    /// A definition with all below it. `lookup` knows definitions by name and version (none = the latest). The error names
    /// what is missing, a cycle, or nesting that is too deep; its places are those of `parsed`, if it is just being defined.
    pub fn resolve(
        root: Arc<Definition>,
        parsed: Option<&Parsed>,
        lookup: impl Fn(&str, Option<u32>) -> Option<Arc<Definition>>,
    ) -> Result<Self, Problems> {
        let mut links = Links { lookup, parsed, pinned: Vec::new(), problems: Vec::new() };
        let mut path = vec![Arc::clone(&root.name)];
        links.follow(&root, &mut path, None);
        if links.problems.is_empty() { Ok(Self::new(root, links.pinned)) } else { Err(Problems(links.problems)) }
    }
}

struct Links<'p, L> {
    lookup: L,
    parsed: Option<&'p Parsed>,
    pinned: Vec<(Arc<str>, Arc<Definition>)>,
    problems: Vec<Problem>,
}

impl<L: Fn(&str, Option<u32>) -> Option<Arc<Definition>>> Links<'_, L> {
    /// `first` is the step of the root that leads here.
    fn follow(&mut self, definition: &Definition, path: &mut Vec<Arc<str>>, first: Option<usize>) {
        for (index, step) in definition.steps.iter().enumerate() {
            let Action::Saga { definition: name, version } = &step.action else { continue };
            let root_step = first.unwrap_or(index);
            if path.iter().any(|seen| seen == name) {
                let way = path.iter().map(|name| &**name).collect::<Vec<_>>().join(" -> ");
                let what = format!("the sub-sagas go round in a circle: {way} -> {name}");
                self.problem(root_step, what, "let one of them not begin the other");
                continue;
            }
            if path.len() >= DEPTH_MAX {
                let what = format!("sub-sagas are nested deeper than {DEPTH_MAX}");
                self.problem(root_step, what, "flatten them");
                continue;
            }
            let uri = step.action.to_string();
            let known = self.pinned.iter().find(|(pinned, _)| **pinned == *uri).map(|(_, found)| Arc::clone(found));
            let Some(child) = known.clone().or_else(|| (self.lookup)(name, *version)) else {
                let what = format!("{uri} names a definition that isn't there");
                self.problem(root_step, what, "define it first, or correct the name");
                continue;
            };
            if known.is_none() {
                self.pinned.push((Arc::from(uri), Arc::clone(&child)));
            }
            path.push(Arc::clone(name));
            self.follow(&child, path, Some(root_step));
            path.pop();
        }
    }

    fn problem(&mut self, step: usize, what: String, fix: &str) {
        let at = self.parsed.and_then(|parsed| parsed.places.get(step)).copied().unwrap_or_default();
        let path = format!("steps[{step}].action");
        self.problems.push(Problem { severity: Severity::Error, at, path, what, fix: fix.to_owned() });
    }
}

impl Parsed {
    /// Warnings about `fn:` steps that nobody serves now. `served` are the addresses of all steps that participants serve
    /// (`fn:<participant>/<step>`), and whether each has a compensation.
    pub fn check_participants(&self, served: &[(StepAddress, bool)]) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, step) in self.definition.steps.iter().enumerate() {
            let at = self.places.get(index).copied().unwrap_or_default();
            let uses = [("action", Some(&step.action), false), ("compensation", step.compensation.as_ref(), true)];
            for (field, action, undoes) in uses {
                if let Some(Action::Fn(address)) = action {
                    problems.extend(check_step(address, undoes, served, at, format!("steps[{index}].{field}")));
                }
            }
        }
        problems
    }
}

fn check_step(
    address: &StepAddress,
    undoes: bool,
    served: &[(StepAddress, bool)],
    at: Position,
    path: String,
) -> Option<Problem> {
    let is_it = |known: &StepAddress| {
        known.step == address.step && (address.participant.is_none() || known.participant == address.participant)
    };
    let warn = |what: String, fix: String| Problem { severity: Severity::Warning, at, path, what, fix };
    let hits: Vec<&(StepAddress, bool)> = served.iter().filter(|(known, _)| is_it(known)).collect();
    match hits.as_slice() {
        [] => {
            let names: Vec<String> = served.iter().map(|(known, _)| known.to_string()).collect();
            let near = nearest(&address.to_string(), names.iter().map(String::as_str));
            let fix = near.map_or_else(
                || "load a participant that serves it before sagas begin".to_owned(),
                |near| format!("did you mean {near:?}?"),
            );
            Some(warn(format!("no participant serves {address} now"), fix))
        }
        [(_, compensates)] if undoes && !compensates => {
            let fix = "name another step, or add it to the plugin".to_owned();
            Some(warn(format!("{address} has no compensation"), fix))
        }
        [_] => None,
        _ => Some(warn(format!("several participants serve {address}"), "write fn:PARTICIPANT/STEP".to_owned())),
    }
}
