//! A saga as a tree: a line for each step with what is known of it below, sub-sagas below their steps.

use serde_json::value::RawValue;
use waybill_api::saga_node::{SagaNodeView, StepView};

use super::paint::{Paint, at, between, state_paint, state_word, step_words};
use super::step::details;
use crate::output::{cut, safe};

/// Longest text of one line where nothing else bounds it; all of it is left to `-o json`.
const LINE_MAX: usize = 2_000;
/// Columns that names of steps get at most; longer ones push the rest.
const NAME_WIDTH_MAX: usize = 24;
/// Columns of the longest word for a state.
const STATE_WIDTH: usize = 19;

pub(super) struct Drawing {
    pub(super) lines: Vec<String>,
    color: bool,
    width: Option<usize>,
}

/// What stands before the lines of a part: `├─ ` before its first, `│  ` before the others.
#[derive(Clone)]
struct Branch {
    first: String,
    rest: String,
}

impl Branch {
    /// The part below this one.
    fn child(&self, is_last: bool) -> Self {
        let (first, rest) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        Self { first: format!("{}{first}", self.rest), rest: format!("{}{rest}", self.rest) }
    }
}

impl Drawing {
    /// With the columns of the terminal; none = a pipe, which gets whole lines.
    pub(super) fn new(color: bool, width: Option<u16>) -> Self {
        Self { lines: Vec::new(), color, width: width.map(usize::from) }
    }

    /// A saga with its steps.
    pub(super) fn root(&mut self, node: &SagaNodeView) {
        self.node(node, &Branch { first: String::new(), rest: String::new() });
    }

    fn node(&mut self, node: &SagaNodeView, branch: &Branch) {
        let cause = node.cause.as_deref().map(|cause| format!(" ({})", safe(cause))).unwrap_or_default();
        let name = safe(&node.id);
        let state = format!("{}{cause}", state_word(node.state));
        let times = match node.ended_at {
            Some(ended) => format!("{}, took {}", at(node.started_at), between(node.started_at, ended)),
            None => format!("since {}", at(node.started_at)),
        };
        let definition = format!("{} v{}", safe(&node.definition), node.version);
        self.painted(
            &branch.first,
            &[
                (Paint::Strong, name.as_str()),
                (Paint::Plain, definition.as_str()),
                (state_paint(node.state), state.as_str()),
                (Paint::Faint, times.as_str()),
            ],
        );
        self.about_node(node, branch);
        let width = node.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0).min(NAME_WIDTH_MAX);
        let groups: Vec<&[StepView]> = node.steps.chunk_by(|a, b| a.group == b.group).collect();
        for (index, group) in groups.iter().enumerate() {
            let is_last = index + 1 == groups.len();
            self.group(group, &branch.child(is_last), width);
        }
    }

    fn about_node(&mut self, node: &SagaNodeView, branch: &Branch) {
        let bar = format!("{}{}", branch.rest, if node.steps.is_empty() { "  " } else { "│ " });
        if let Some(failure) = &node.failure {
            let maybe = if failure.maybe_done { " (may have been done)" } else { "" };
            let text = format!("{}: {}{maybe}", safe(&failure.code), safe(&failure.reason));
            self.line(&bar, Paint::Bad, &format!("went back: {text}"));
        }
        if let Some(deadline) = node.deadline {
            self.line(&bar, Paint::Faint, &format!("deadline {}", at(deadline)));
        }
        self.line(&bar, Paint::Faint, &format!("input {}", one_line(&node.input)));
        if !node.signals.is_empty() {
            let signals: Vec<String> = node.signals.iter().map(|signal| safe(signal)).collect();
            self.line(&bar, Paint::Faint, &format!("signals kept: {}", signals.join(", ")));
        }
    }

    /// Steps that run together; one by itself needs no heading.
    fn group(&mut self, group: &[StepView], branch: &Branch, width: usize) {
        if let [step] = group {
            return self.step(step, branch, width);
        }
        self.line(&branch.first, Paint::Faint, "together");
        for (index, step) in group.iter().enumerate() {
            self.step(step, &branch.child(index + 1 == group.len()), width);
        }
    }

    fn step(&mut self, step: &StepView, branch: &Branch, width: usize) {
        let (mark, word, paint) = step_words(step);
        let name = format!("{:<width$}", safe(&step.name));
        let state = format!("{word:<STATE_WIDTH$}");
        let times = match (step.began_at, step.ended_at) {
            (None, _) => String::new(),
            (Some(began), None) => format!("{}  {}", at(began), attempts(step)),
            (Some(began), Some(ended)) => format!("{}  {}, {}", at(began), attempts(step), between(began, ended)),
        };
        self.painted(
            &branch.first,
            &[(paint, mark), (Paint::Strong, &name), (paint, &state), (Paint::Faint, times.trim_end())],
        );
        // The text below a step hangs on a bar when a sub-saga follows.
        let below = step.saga.is_some();
        let bar = format!("{}{}", branch.rest, if below { "│ " } else { "  " });
        for (paint, text) in details(step) {
            self.line(&bar, paint, &text);
        }
        if let Some(saga) = &step.saga {
            self.node(saga, &branch.child(true));
        }
    }

    /// Parts of a line, each in its colour, two columns apart, cut where the terminal ends.
    fn painted(&mut self, before: &str, parts: &[(Paint, &str)]) {
        let mut line = before.to_owned();
        let mut used = before.chars().count();
        for (index, (paint, text)) in parts.iter().filter(|(_, text)| !text.is_empty()).enumerate() {
            let gap = match index {
                0 => "",
                // A mark stands close to its name.
                1 if parts.first().is_some_and(|(_, mark)| mark.chars().count() == 1) => " ",
                _ => "  ",
            };
            let room = self.width.unwrap_or(LINE_MAX).saturating_sub(used + gap.len());
            let text = cut(text, room);
            used += gap.len() + text.chars().count();
            line.push_str(gap);
            line.push_str(&paint.on(&text, self.color));
        }
        self.lines.push(line.trim_end().to_owned());
    }

    fn line(&mut self, before: &str, paint: Paint, text: &str) {
        self.painted(before, &[(paint, text)]);
    }
}

/// How often the way that it goes, or went last, was tried. Which of them failed its mark and its error say.
fn attempts(step: &StepView) -> String {
    match step.attempts {
        0 => String::new(),
        1 => "1 attempt".to_owned(),
        count => format!("{count} attempts"),
    }
}

/// JSON on one line; texts in it are escaped, so that it draws nothing on the terminal.
pub(super) fn one_line(json: &RawValue) -> String {
    safe(json.get())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn colours_are_left_out_where_they_may_not_be() {
        assert_eq!(Paint::Bad.on("x", false), "x");
        assert_eq!(Paint::Bad.on("x", true), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Paint::Plain.on("x", true), "x");
    }
}
