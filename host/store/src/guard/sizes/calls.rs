//! What functions, methods and closures make of what they are given.

use std::rc::Rc;

use surrealdb_expr::expr::{ClosureExpr, Expr, Function, FunctionCall};

use super::expressions::larger;
use super::scope::{Captured, Known};
use super::size::{Size, VALUE};
use super::work::{CALL_TIMES, DIGITS_MAX};
use super::{Judged, Sizes};
use crate::guard::functions::{Growth, Steps, growth, method_growth, steps};

/// Closures called one inside the other.
const CALLS_MAX: u32 = 8;
/// A text of a number, an instant or an id.
const SHORT_TEXT: u64 = VALUE + 192;
/// Largest random text that can be asked for.
const RANDOM_TEXT: u64 = VALUE + 64 * 1024;
/// SurrealDB's own limit for texts that `string::` functions put together, in bytes.
const JOINED_MAX: u64 = 2 << 20;
/// Bytes of text that a byte, or the share of a number in 64 bytes, becomes at most: `"` is `&quot;`, 1e308 has 309 digits.
pub(super) const TEXT_TIMES: u64 = 8;
/// The same of the pattern of a time: `%+` is 35 bytes.
const FORMAT_TIMES: u64 = 20;
/// Bytes of values that a byte of text becomes at most: `[1,1]` is a number for every second byte, `'ab'` split a text for each.
const WIDE_TIMES: u64 = 2 * VALUE;
/// An answer that holds what is given, each item in a list of its own at worst.
const LINEAR_TIMES: u64 = 3;
/// Functions and methods that write a time by a pattern.
const FORMATS: [&str; 3] = ["time::format", "format", "time_format"];

/// Its bytes so many times. What rows hold counts once: their bound is none of one value. The result forgets how many items it had.
fn grown(sizes: &Sizes<'_>, size: Size, times: u64) -> Size {
    let mut size = Size { fixed: size.fixed.saturating_mul(times), ..size.part() };
    for (count, level) in size.of.iter_mut().zip(&sizes.levels).skip(1) {
        let of_rows = level.source.of.iter().any(|count| *count > 0);
        *count = count.saturating_mul(if of_rows { 1 } else { times });
    }
    size
}

/// The text that a value is written as.
pub(super) fn texts(sizes: &Sizes<'_>, size: Size, times: u64) -> Size {
    Size { count: Some(1), ..grown(sizes, size, times) }
}

/// The values that a text or bytes are taken apart into: of rows as well, since one long text is enough.
fn wide(size: Size) -> Size {
    size.times(WIDE_TIMES)
}

impl<'e> Sizes<'e> {
    pub(super) fn call(&mut self, call: &'e FunctionCall) -> Judged {
        let FunctionCall { receiver, arguments } = call;
        match receiver {
            Function::Normal(name) => {
                let given = self.arguments(arguments)?;
                self.applied(name, growth(name), &given, arguments.get(1..).unwrap_or_default())
            }
            // Defined in the database by its operator, who answers for what it does.
            Function::Custom(_) => {
                let given = self.exprs(arguments)?;
                if given.ranges {
                    return Err("a range is no argument of a function of your own: it could be stored".to_owned());
                }
                let all = Size::rows().and(given);
                self.made("a function of your own", all)
            }
            Function::Script(_)
            | Function::Model(_)
            | Function::Module(_, _)
            | Function::Silo { org: _, pkg: _, major: _, minor: _, patch: _, sub: _ } => {
                Err("scripts, models and modules aren't taken".to_owned())
            }
        }
    }

    /// A method of a value.
    pub(super) fn method(&mut self, name: &str, of: Size, arguments: &'e [Expr]) -> Judged {
        let mut given = vec![of];
        given.extend(self.arguments(arguments)?);
        self.applied(name, method_growth(name), &given, arguments)
    }

    /// Arguments of a function: it calls closures among them.
    fn arguments(&mut self, arguments: &'e [Expr]) -> Result<Vec<Size>, String> {
        let size = |argument: &'e Expr| match self.is_closure(argument) {
            true => Ok(Size::scalar()),
            false => self.expr(argument),
        };
        arguments.iter().map(size).collect()
    }

    /// What a function answers. `others` are its arguments behind the first.
    fn applied(&mut self, name: &str, growth: Growth, given: &[Size], others: &'e [Expr]) -> Judged {
        let name = name.to_ascii_lowercase();
        let name = name.as_str();
        let first = given.first().cloned().unwrap_or_default();
        let all = given.iter().cloned().fold(Size::default(), Size::and);
        let ranges = all.ranges;
        self.call_works(name, given, &all);
        let mut mapped = None;
        for expr in others {
            if self.is_closure(expr) {
                let closure = self.closure_of(expr)?;
                mapped = Some(self.for_each(name, first.clone(), &closure)?);
            }
        }
        let answer = match growth {
            Growth::Scalar => Size::scalar(),
            Growth::Short => Size::fixed(SHORT_TEXT),
            Growth::Random => Size::fixed(RANDOM_TEXT),
            // Some keep what they are given and some what the closure makes of it.
            Growth::Closure => match mapped {
                Some(mapped) => mapped.and(first),
                None => first.part(),
            },
            Growth::Linear => grown(self, all, LINEAR_TIMES).and(Size::scalar()),
            Growth::Text => {
                let written = if FORMATS.contains(&name) {
                    let patterns = given.iter().skip(1).cloned().fold(Size::default(), Size::and);
                    Size { fixed: patterns.fixed.saturating_sub(VALUE), ..patterns }.times(FORMAT_TIMES)
                } else if name.contains("encode") {
                    // The text to be quoted may lie in a row, and be as long as the row.
                    all.times(TEXT_TIMES)
                } else {
                    texts(self, all, TEXT_TIMES)
                };
                let written = written.and(Size::fixed(SHORT_TEXT));
                self.joined(name, Size { count: Some(1), ..written })
            }
            Growth::Wide => wide(all),
            Growth::Product => {
                // Of a text every byte is a place to put another one, of a list every item.
                let places = match name.rsplit("::").next() {
                    Some("replace") => self.bytes(&first),
                    _ => self.items(&first),
                };
                let put = given.iter().skip(1).map(|size| self.bytes(size)).max().unwrap_or(0);
                let between = places.saturating_add(1).saturating_mul(put.saturating_sub(VALUE));
                // `string::join` has its separator first.
                let before = self.bytes(&first).saturating_mul(given.len() as u64);
                let written = texts(self, all, TEXT_TIMES).and(Size::fixed(between.saturating_add(before)));
                let put = Size { count: Some(1), ..written };
                self.joined(name, put)
            }
        };
        let answer = match name {
            "type::record" => Size { ids: true, count: Some(1), tables: ranges, ..answer },
            "type::table" => Size { ids: true, tables: true, ..answer },
            _ => answer,
        };
        self.made(name, answer)
    }

    /// What a function looks at, and how often.
    fn call_works(&mut self, name: &str, given: &[Size], all: &Size) {
        self.sets |= name.starts_with("set::");
        self.looks_at(&all.clone().times(CALL_TIMES));
        let first = given.first().cloned().unwrap_or_default();
        let others = given.iter().skip(1).cloned().fold(Size::default(), Size::and);
        match steps(name) {
            Steps::Once => {}
            Steps::Pairs => self.compares(&first, &others),
            Steps::Moves => self.may_compare(&first, &others),
            // The method may be the array's, which moves nothing.
            Steps::Itself if self.sets => self.compares_itself(&first),
            Steps::Itself => {}
            Steps::Digits => {
                let digits = given.get(1).and_then(|size| size.number).and_then(|number| u64::try_from(number).ok());
                self.looks_at(&Size::fixed(digits.unwrap_or(DIGITS_MAX).min(DIGITS_MAX).saturating_mul(CALL_TIMES)));
            }
        }
    }

    /// A text that SurrealDB doesn't make longer than its own limit.
    fn joined(&self, name: &str, size: Size) -> Size {
        let limited = ["string::concat", "string::join", "string::replace"].contains(&name);
        // Inside a loop over rows the limit is one for each of them, and their own is lower.
        match limited && size.of.iter().all(|count| *count == 0) {
            true => Size { fixed: size.fixed.min(JOINED_MAX + VALUE), ..size },
            false => size,
        }
    }

    /// A closure called for every item of a value, or once for the value.
    fn for_each(&mut self, name: &str, source: Size, closure: &Rc<Captured<'e>>) -> Judged {
        if name.ends_with("chain") {
            return self.invoke(closure, vec![source]);
        }
        let rounds = self.items(&source);
        let of = source.clone();
        let round = self.each(source, rounds, |sizes, level| {
            let item = Self::item_of(&of, level);
            // The item, its place, and whatever else a function hands over.
            let made = sizes.invoke(closure, vec![item.clone(), Size::scalar(), item])?;
            Ok(made.and(Size::scalar()))
        })?;
        Ok(round.kept(rounds))
    }

    /// What a closure makes of these arguments.
    pub(super) fn invoke(&mut self, captured: &Rc<Captured<'e>>, given: Vec<Size>) -> Judged {
        if self.calls >= CALLS_MAX {
            return Err(format!("closures call one another {CALLS_MAX} times deep: call fewer"));
        }
        let ClosureExpr { args, returns: _, body } = captured.closure;
        self.steps += captured.scope.count() / super::NAMES_A_STEP;
        let outside = std::mem::replace(&mut self.scope, captured.scope.clone());
        let mut given = given.into_iter();
        for (param, _) in args {
            let size = given.next().unwrap_or_else(Size::scalar);
            self.scope.set(param.as_str(), Known::value(size));
        }
        self.calls += 1;
        let returned = std::mem::take(&mut self.returned);
        let made = self.expr(body);
        let inside = std::mem::replace(&mut self.returned, returned);
        self.calls -= 1;
        self.scope = outside;
        made.map(|made| larger(made, inside))
    }
}
