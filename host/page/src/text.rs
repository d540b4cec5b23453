//! Texts as they are shown: those that others wrote with their invisible characters marked, numbers with commas, ages, sizes.

use std::fmt::Write as _;
use std::time::Duration;

use maud::{Escaper, Markup, PreEscaped, Render};

/// A text that somebody else wrote, on one line: whatever can't be seen in it, or would turn what is around it, is a mark.
pub struct Foreign<'a>(pub &'a str);

/// The same where lines are kept, as in a payload.
pub struct ForeignLines<'a>(pub &'a str);

/// Shown for a text that isn't there.
pub const NONE: &str = "–";

/// A text that somebody else wrote.
pub fn foreign(text: &str) -> Foreign<'_> {
    Foreign(text)
}

/// One that may not be there.
pub fn or_none(text: Option<&str>) -> Markup {
    match text {
        Some(text) => Foreign(text).render(),
        None => PreEscaped(NONE.to_owned()),
    }
}

impl Render for Foreign<'_> {
    fn render_to(&self, out: &mut String) {
        marked(self.0, false, out);
    }
}

impl Render for ForeignLines<'_> {
    fn render_to(&self, out: &mut String) {
        marked(self.0, true, out);
    }
}

fn marked(text: &str, keeps_lines: bool, out: &mut String) {
    let mut plain_from = 0;
    for (at, letter) in text.char_indices() {
        if !is_hidden(letter) || keeps_lines && matches!(letter, '\n' | '\t') {
            continue;
        }
        escape(text.get(plain_from..at).unwrap_or_default(), out);
        out.push_str("<span class=\"x\">");
        // A String takes whatever is written.
        let _ = write!(out, "U+{:04X}", u32::from(letter));
        out.push_str("</span>");
        plain_from = at + letter.len_utf8();
    }
    escape(text.get(plain_from..).unwrap_or_default(), out);
}

fn escape(text: &str, out: &mut String) {
    let _ = Escaper::new(out).write_str(text);
}

/// How many characters of a text are marked where lines are kept.
pub fn hidden_count(text: &str) -> usize {
    text.chars().filter(|letter| is_hidden(*letter) && !matches!(letter, '\n' | '\t')).count()
}

/// A text for an attribute that is only read, such as a title: what can't be seen is a replacement character.
pub fn for_attribute(text: &str) -> String {
    text.chars().map(|letter| if is_hidden(letter) { char::REPLACEMENT_CHARACTER } else { letter }).collect()
}

/// Whether a character shows nothing by itself: control characters, those that turn the direction of what follows, those without width.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
                | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
                | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// A number with commas between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// One thing or several of them: `1 message`, `1,188 messages`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {many}", count(number)) }
}

/// A length of time as people say it, with two units at most.
pub fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=9 => {
            let tenths = time.as_millis() / 100;
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        10..=59 => format!("{seconds} s"),
        60..=3_599 => format!("{} m {} s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{} h {} m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The same of milliseconds.
pub fn length_ms(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { length(Duration::from_millis(ms)) }
}

/// A time in microseconds: `250 µs`, `1.2 ms`, `45 ms`, then as [`length_ms`].
pub fn length_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => length_ms(us / 1_000),
    }
}

/// A size: whole kibibytes below a mebibyte, whole mebibytes above, rounded up.
pub fn size(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    if bytes < MIB { format!("{} KiB", bytes.div_ceil(KIB)) } else { format!("{} MiB", count(bytes.div_ceil(MIB))) }
}

/// The first letters of a text that is too long for its place.
pub fn shortened(text: &str, letters: usize) -> String {
    let mut rest = text.char_indices();
    match rest.nth(letters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_marked_and_nothing_is_html() {
        let shown = foreign("<b>\u{202e}x\0\n&\"").render().0;
        let mark = |code: &str| format!("<span class=\"x\">U+{code}</span>");
        let expected = format!("&lt;b&gt;{}x{}{}&amp;&quot;", mark("202E"), mark("0000"), mark("000A"));
        assert_eq!(shown, expected);
        assert_eq!(ForeignLines("a\n\tb\u{7}").render().0, format!("a\n\tb{}", mark("0007")));
        assert_eq!(hidden_count("a\n\u{feff}\u{200d}"), 2);
        assert_eq!(for_attribute("a\u{202e}\0b"), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn short_times_and_sizes_have_the_unit_that_fits() {
        assert_eq!([250, 1_234, 45_678].map(length_us), ["250 µs", "1.2 ms", "45 ms"]);
        assert_eq!([1, 65_536, 3 << 20, (3 << 20) + 1].map(size), ["1 KiB", "64 KiB", "3 MiB", "4 MiB"]);
    }

    #[test]
    fn numbers_and_ages_are_as_people_write_them() {
        for (number, shown) in [(0, "0"), (999, "999"), (1_188, "1,188"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), shown);
        }
        assert_eq!((counted(1, "key", "keys"), counted(0, "key", "keys")), ("1 key".into(), "0 keys".into()));
        for (seconds, shown) in [(14, "14 s"), (836, "13 m 56 s"), (7_860, "2 h 11 m"), (200_000, "2 d")] {
            assert_eq!(length(Duration::from_secs(seconds)), shown);
        }
        assert_eq!((length_ms(412), length_ms(1_400)), ("412 ms".into(), "1.4 s".into()));
        assert_eq!((shortened("añb", 2), shortened("añ", 2)), ("añ…".into(), "añ".into()));
    }
}
