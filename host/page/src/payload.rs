//! A payload as people read it: its own tokens in its own order, with lines and colours, nothing parsed into numbers or maps.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, Render, html};

use crate::text::{Foreign, ForeignLines};

/// Of a larger payload this much is shown, as it came. Bytes.
pub const SHOWN_MAX: usize = 64 * 1024;
/// Of bytes that aren't text so many are shown, in hex.
pub const HEX_MAX: usize = 4 * 1024;
/// Letters of a text within a payload before it is folded.
const FOLD_LETTERS: usize = 200;
/// Longest object or array without another in it that stays on one line, in bytes.
const LINE_MAX: usize = 72;

/// Whether the whole payload is shown.
pub fn is_whole(bytes: &[u8]) -> bool {
    let max = if std::str::from_utf8(bytes).is_ok() { SHOWN_MAX } else { HEX_MAX };
    bytes.len() <= max
}

/// A payload as it came: text with marks for what can't be seen, else hex.
pub fn raw(bytes: &[u8]) -> Markup {
    let head = bytes.get(..SHOWN_MAX.min(bytes.len())).unwrap_or_default();
    match std::str::from_utf8(head) {
        Ok(text) => ForeignLines(text).render(),
        // Cut within a character, and readable up to there.
        Err(error) if head.len() < bytes.len() && head.len() - error.valid_up_to() < 4 => {
            let text = head.get(..error.valid_up_to()).and_then(|text| std::str::from_utf8(text).ok());
            ForeignLines(text.unwrap_or_default()).render()
        }
        Err(_) => PreEscaped(hex(head.get(..HEX_MAX.min(head.len())).unwrap_or_default())),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut lines = String::with_capacity(bytes.len() * 3 + bytes.len() / 2);
    for (at, line) in bytes.chunks(16).enumerate() {
        // A String takes whatever is written.
        let _ = write!(lines, "{:08x} ", at * 16);
        for byte in line {
            let _ = write!(lines, " {byte:02x}");
        }
        lines.push('\n');
    }
    lines
}

/// JSON with lines and colours. `json` is JSON that was checked; anything else is shown as it came.
pub fn readable(json: &str) -> Markup {
    if json.len() > SHOWN_MAX {
        return raw(json.as_bytes());
    }
    let tokens = tokens(json);
    let mut page = Writer { out: String::with_capacity(json.len() * 2), depth: 0 };
    let mut open: Vec<bool> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        match token {
            Token::Open(mark) => {
                page.symbol(mark);
                let is_flat = is_flat(tokens.get(at + 1..).unwrap_or_default());
                open.push(is_flat);
                page.depth += 1;
                if !matches!(next, Some(Token::Close(_))) {
                    page.gap(is_flat);
                }
            }
            Token::Close(mark) => {
                page.depth = page.depth.saturating_sub(1);
                let is_flat = open.pop().unwrap_or(true);
                if !matches!(at.checked_sub(1).and_then(|at| tokens.get(at)), Some(Token::Open(_))) {
                    page.gap(is_flat);
                }
                page.symbol(mark);
            }
            Token::Comma => {
                page.out.push(',');
                page.gap(open.last().copied().unwrap_or(true));
            }
            Token::Colon => page.out.push_str(": "),
            Token::Text(text) if matches!(next, Some(Token::Colon)) => page.folded("k", text),
            Token::Text(text) => page.folded("s", text),
            Token::Plain(text) => page.span("n", text),
        }
    }
    PreEscaped(page.out)
}

/// The members of a JSON object in its order, doubled ones too, each value as it came; none for what is no object.
pub fn members(json: &str) -> Option<Vec<(String, String)>> {
    let all = tokens(json);
    let mut rest = match all.split_first() {
        Some((Token::Open("{"), rest)) => rest,
        _ => return None,
    };
    let mut members = Vec::new();
    while let [Token::Text(name), Token::Colon, value @ ..] = rest {
        let end = value_end(value);
        let (value, behind) = value.split_at_checked(end)?;
        members.push((plain_text(name), shown_value(value)));
        rest = match behind {
            [Token::Comma, behind @ ..] => behind,
            behind => behind,
        };
    }
    Some(members)
}

/// How many of these tokens are the value that they begin with.
fn value_end(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close(_) if depth == 0 => return at,
            Token::Close(_) => depth -= 1,
            Token::Comma if depth == 0 => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// A text without its quotes; another value as it is written.
fn shown_value(tokens: &[Token<'_>]) -> String {
    if let [Token::Text(text)] = tokens {
        return plain_text(text);
    }
    let written = tokens.iter().map(|token| match token {
        Token::Open(mark) | Token::Close(mark) => *mark,
        Token::Comma => ", ",
        Token::Colon => ": ",
        Token::Text(text) | Token::Plain(text) => *text,
    });
    written.collect()
}

/// What a JSON string says; as it is written where that is no text by itself, as of half a surrogate pair.
fn plain_text(quoted: &str) -> String {
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.to_owned())
}

enum Token<'j> {
    Open(&'static str),
    Close(&'static str),
    Comma,
    Colon,
    Text(&'j str),
    /// A number or a word.
    Plain(&'j str),
}

impl Token<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Plain(text) => text.len(),
            Self::Open(_) | Self::Close(_) => 1,
            Self::Comma | Self::Colon => 2,
        }
    }
}

fn tokens(json: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = json;
    while let Some(first) = rest.bytes().next() {
        let taken = match first {
            b'"' => {
                let end = text_end(rest);
                found.push(Token::Text(rest.get(..end).unwrap_or(rest)));
                end
            }
            b'{' | b'[' | b'}' | b']' | b',' | b':' => {
                found.push(match first {
                    b'{' => Token::Open("{"),
                    b'[' => Token::Open("["),
                    b'}' => Token::Close("}"),
                    b']' => Token::Close("]"),
                    b',' => Token::Comma,
                    _ => Token::Colon,
                });
                1
            }
            b' ' | b'\n' | b'\r' | b'\t' => 1,
            _ => {
                let end = rest.find(|letter: char| letter.is_whitespace() || "{}[],:\"".contains(letter));
                let end = end.unwrap_or(rest.len());
                found.push(Token::Plain(rest.get(..end).unwrap_or(rest)));
                end
            }
        };
        rest = rest.get(taken.max(1)..).unwrap_or_default();
    }
    found
}

/// The place behind a text's closing quote.
fn text_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether what was opened right before these tokens is short and holds nothing that opens.
fn is_flat(tokens: &[Token<'_>]) -> bool {
    let mut bytes = 0;
    for token in tokens {
        match token {
            Token::Open(_) => return false,
            Token::Close(_) => return true,
            token => bytes += token.bytes(),
        }
        if bytes > LINE_MAX {
            return false;
        }
    }
    true
}

struct Writer {
    out: String,
    depth: usize,
}

impl Writer {
    fn symbol(&mut self, mark: &str) {
        self.span("k", mark);
    }

    fn span(&mut self, class: &str, text: &str) {
        let _ = write!(self.out, "<span class=\"{class}\">");
        Foreign(text).render_to(&mut self.out);
        self.out.push_str("</span>");
    }

    /// A text; of a long one the beginning, and how much there is besides.
    fn folded(&mut self, class: &str, text: &str) {
        let Some((end, _)) = text.char_indices().nth(FOLD_LETTERS) else { return self.span(class, text) };
        let (head, tail) = text.split_at_checked(end).unwrap_or((text, ""));
        self.span(class, head);
        let _ = write!(self.out, "<span class=\"fold\">… {} more characters; in Raw</span>", tail.chars().count());
    }

    fn gap(&mut self, is_flat: bool) {
        if is_flat {
            self.out.push(' ');
        } else {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", self.depth));
        }
    }
}

pub fn boxed(name: &str, tabs: &Markup, body: &Markup, foot: &str) -> Markup {
    html! {
        div.sheet {
            (tabs)
            pre tabindex="0" role="region" aria-label=(name) { (body) }
            p.more { span { (foot) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(json: &str) -> String {
        let mut text = readable(json).0;
        while let (Some(from), Some(to)) = (text.find('<'), text.find('>')) {
            text.replace_range(from..=to, "");
        }
        text
    }

    #[test]
    fn numbers_order_and_doubled_names_stay_as_they_came() {
        let shown = plain("{\"b\":9007199254740993,\"a\":[1.10,1e999],\"b\":{}}");
        assert_eq!(
            shown,
            "{\n  &quot;b&quot;: 9007199254740993,\n  &quot;a&quot;: [ 1.10, 1e999 ],\n  &quot;b&quot;: {}\n}"
        );
        assert_eq!(plain("[]"), "[]");
        assert_eq!(plain("\"a\\\"b\""), "&quot;a\\&quot;b&quot;");
    }

    #[test]
    fn members_keep_their_order_and_their_numbers() {
        let found = members("{\"b\":\"x \\\"y\",\"a\":[1.10,{\"c\":1e999}],\"b\":9007199254740993}");
        let shown: Vec<(String, String)> = [("b", "x \"y"), ("a", "[1.10, {\"c\": 1e999}]"), ("b", "9007199254740993")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        assert_eq!(found, Some(shown));
        assert_eq!((members("[1]"), members("{}"), members("")), (None, Some(Vec::new()), None));
    }

    #[test]
    fn long_texts_fold_and_hostile_ones_are_marked() {
        let shown = readable(&format!("\"{}\"", "a".repeat(1_000))).0;
        assert!(shown.contains("802 more characters") && shown.len() < 400, "{shown}");
        let shown = readable("\"</script>\u{202e}\"").0;
        assert!(shown.contains("&lt;/script&gt;<span class=\"x\">U+202E</span>"), "{shown}");
    }

    #[test]
    fn what_is_no_text_is_hex() {
        assert_eq!(raw(&[0xff, 0x00]).0, "00000000  ff 00\n");
        assert_eq!(raw(b"a<\x00").0, "a&lt;<span class=\"x\">U+0000</span>");
        assert!(is_whole(b"{}") && !is_whole(&vec![b'a'; SHOWN_MAX + 1]) && !is_whole(&vec![0xff; HEX_MAX + 1]));
    }
}
