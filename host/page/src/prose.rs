//! The little of Markdown that help pages have: headings, paragraphs, lists, code, links to other codes. Nothing of it is HTML by itself,
//! and no link leads to another host.

use maud::{Markup, PreEscaped, html};

use crate::address;
use crate::text::{ForeignLines, foreign};

/// A page without its first heading, which the view has.
pub fn prose(text: &str) -> Markup {
    let mut shown = String::with_capacity(text.len() * 2);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with("# ") {
            continue;
        }
        let block = if let Some(title) = line.strip_prefix("## ") {
            html! { h2 { (inline(title)) } }
        } else if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            html! { pre.cmd tabindex="0" { (ForeignLines(&code.join("\n"))) } }
        } else {
            let mut block = vec![line];
            while let Some(line) = lines.next_if(|line| !ends_block(line)) {
                block.push(line);
            }
            paragraph_or_list(&block)
        };
        shown.push_str(&block.0);
    }
    PreEscaped(shown)
}

fn ends_block(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with("## ") || line.starts_with("```")
}

fn paragraph_or_list(lines: &[&str]) -> Markup {
    let mut before: Vec<&str> = Vec::new();
    let mut items: Vec<String> = Vec::new();
    for line in lines {
        match (line.strip_prefix("- "), items.last_mut()) {
            (Some(item), _) => items.push(item.to_owned()),
            (None, Some(item)) => {
                item.push(' ');
                item.push_str(line.trim_start());
            }
            (None, None) => before.push(line),
        }
    }
    html! {
        @if !before.is_empty() { p { (inline(&before.join(" "))) } }
        @if !items.is_empty() { ul.prose { @for item in &items { li { (inline(item)) } } } }
    }
}

/// Text with code and links in it.
fn inline(text: &str) -> Markup {
    let mut shown = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(at) = rest.find(['`', '[']) {
        let (plain, from) = rest.split_at(at);
        shown.push_str(&html! { (foreign(plain)) }.0);
        let (taken, markup) = code(from).or_else(|| link(from)).unwrap_or_else(|| {
            let mark = from.get(..1).unwrap_or_default();
            (1, html! { (foreign(mark)) })
        });
        shown.push_str(&markup.0);
        rest = from.get(taken..).unwrap_or_default();
    }
    shown.push_str(&html! { (foreign(rest)) }.0);
    PreEscaped(shown)
}

/// `code` at the beginning of a text, and how many bytes it takes.
fn code(text: &str) -> Option<(usize, Markup)> {
    let (inner, _) = text.strip_prefix('`')?.split_once('`')?;
    Some((inner.len() + 2, html! { code { (foreign(inner)) } }))
}

/// A link at the beginning of a text: to another code, else just its words.
fn link(text: &str) -> Option<(usize, Markup)> {
    let (words, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, _) = rest.split_once(')')?;
    let taken = words.len() + target.len() + "[](".len() + 1;
    let help = target.strip_suffix(".md").and_then(address::help);
    let shown = match help {
        Some(help) => html! { a href=(help) { (inline(words)) } },
        None => inline(words),
    };
    Some((taken, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_page_keeps_its_parts_and_leads_to_other_codes_only() {
        let page = "# A.B\n\nIt `x<y`; see [C.D](C.D.md)\nand [plugins](../plugins.md).\n\n## Why\n\n- one\n  more\n- two\n\n```\na <b>\n```\n";
        let shown = prose(page).0;
        assert_eq!(
            shown,
            "<p>It <code>x&lt;y</code>; see <a href=\"/ui/help/C.D\">C.D</a> and plugins.</p><h2>Why</h2>\
             <ul class=\"prose\"><li>one more</li><li>two</li></ul><pre class=\"cmd\" tabindex=\"0\">a &lt;b&gt;</pre>"
        );
    }

    #[test]
    fn marks_that_open_nothing_stay_as_they_are() {
        assert_eq!(prose("a ` b [c] `").0, "<p>a <code> b [c] </code></p>");
        assert_eq!(prose("a ` b [c](").0, "<p>a ` b [c](</p>");
    }
}
