//! What a definition names outside itself: sub-sagas and steps of participants.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::problem::{Position, Problem, Problems, Severity};
use super::{Action, Definition, DefinitionSet, Parsed};
use crate::saga::id::DefinitionHash;
use crate::saga::limits::{DEPTH_MAX, TREE_SAGAS_MAX};
use crate::step_address::StepAddress;
use crate::suggest::nearest;

impl DefinitionSet {
    /// A definition with all below it. `lookup` knows definitions by name and version (none = the latest). The error names
    /// what is missing, a cycle, nesting that is too deep, or a tree of too many sagas; its places are those of `parsed`, if it is just being defined.
    pub fn resolve(
        root: Arc<Definition>,
        parsed: Option<&Parsed>,
        lookup: impl Fn(&str, Option<u32>) -> Option<Arc<Definition>>,
    ) -> Result<Self, Problems> {
        let mut links = Links { lookup, parsed, pinned: Vec::new(), known: HashMap::new(), problems: Vec::new() };
        let mut path = vec![Arc::clone(&root.name)];
        let below = links.follow(&root, &mut path, None);
        if below.sagas > TREE_SAGAS_MAX && links.problems.is_empty() {
            let what =
                format!("with its sub-sagas and theirs it makes {} sagas, at most {TREE_SAGAS_MAX} are", below.sagas);
            links.problem(below.largest, what, "begin fewer sub-sagas, or do several things in one");
        }
        if links.problems.is_empty() { Ok(Self::new(root, links.pinned)) } else { Err(Problems(links.problems)) }
    }
}

struct Links<'p, L> {
    lookup: L,
    parsed: Option<&'p Parsed>,
    pinned: Vec<(Arc<str>, Arc<Definition>)>,
    /// Definitions that were followed to the end.
    known: HashMap<DefinitionHash, Below>,
    problems: Vec<Problem>,
}

/// A definition with what is below it.
#[derive(Clone, Default)]
struct Below {
    /// Names of all definitions in it, itself excluded.
    names: BTreeSet<Arc<str>>,
    /// Sagas in its tree, itself included.
    sagas: usize,
    /// Definitions one below the other, itself included.
    depth: usize,
    /// The step with the most sagas below it.
    largest: usize,
}

impl<L: Fn(&str, Option<u32>) -> Option<Arc<Definition>>> Links<'_, L> {
    /// `first` is the step of the root that leads here. A definition that was followed before isn't followed again: each is
    /// named by many steps, and those ways multiply with every level.
    fn follow(&mut self, definition: &Definition, path: &mut Vec<Arc<str>>, first: Option<usize>) -> Below {
        let mut below = Below { sagas: 1, depth: 1, ..Below::default() };
        let mut most = 0;
        for (index, step) in definition.steps.iter().enumerate() {
            let Action::Saga { definition: name, version } = &step.action else { continue };
            let root_step = first.unwrap_or(index);
            let Some(child) = self.child(&step.action.to_string(), (name, *version), path, root_step) else { continue };
            let known = self.known.get(&child.hash).cloned();
            if path.len() + known.as_ref().map_or(1, |known| known.depth) > DEPTH_MAX {
                self.problem(root_step, format!("sub-sagas are nested deeper than {DEPTH_MAX}"), "flatten them");
                continue;
            }
            if let Some(seen) = path.iter().find(|seen| known.as_ref().is_some_and(|known| known.names.contains(*seen)))
            {
                let seen = Arc::clone(seen);
                self.circle(root_step, path, &format!("{name} -> .. -> {seen}"));
                continue;
            }
            let child = known.unwrap_or_else(|| {
                path.push(Arc::clone(name));
                let found = self.follow(&child, path, Some(root_step));
                path.pop();
                found
            });
            below.sagas = below.sagas.saturating_add(child.sagas);
            below.depth = below.depth.max(child.depth + 1);
            if child.sagas > most {
                (most, below.largest) = (child.sagas, index);
            }
            below.names.insert(Arc::clone(name));
            below.names.extend(child.names);
        }
        self.known.insert(definition.hash.clone(), below.clone());
        below
    }

    /// What a step begins, or none with a problem told.
    fn child(
        &mut self,
        uri: &str,
        (name, version): (&Arc<str>, Option<u32>),
        path: &[Arc<str>],
        root_step: usize,
    ) -> Option<Arc<Definition>> {
        if path.iter().any(|seen| seen == name) {
            self.circle(root_step, path, name);
            return None;
        }
        if let Some((_, found)) = self.pinned.iter().find(|(pinned, _)| **pinned == *uri) {
            return Some(Arc::clone(found));
        }
        let Some(child) = (self.lookup)(name, version) else {
            self.problem(
                root_step,
                format!("{uri} names a definition that isn't there"),
                "define it first, or correct the name",
            );
            return None;
        };
        self.pinned.push((Arc::from(uri), Arc::clone(&child)));
        Some(child)
    }

    fn circle(&mut self, root_step: usize, path: &[Arc<str>], end: &str) {
        let way = path.iter().map(|name| &**name).collect::<Vec<_>>().join(" -> ");
        let what = format!("the sub-sagas go round in a circle: {way} -> {end}");
        self.problem(root_step, what, "let one of them not begin the other");
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
