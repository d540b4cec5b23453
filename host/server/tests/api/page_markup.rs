//! Reads a page as a browser would, as far as it takes to tell what is markup in it: elements with their attributes, and texts. What
//! others wrote must be in the texts alone.

use waybill_page::text::is_hidden;

use crate::support::Answer;

/// Stands in everything hostile of these tests, so that a name in the markup that has it is theirs.
pub const MARK: &str = "zq";
/// More than any view needs: what is long is cut before it is shown.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Attributes that lead somewhere.
const ADDRESSES: [&str; 5] = ["href", "src", "action", "formaction", "data-source"];
/// How a character is written that would be markup.
const ESCAPES: [&str; 4] = ["&amp;", "&lt;", "&gt;", "&quot;"];

/// What a page is made of.
#[derive(Debug, Default)]
pub struct Markup {
    pub tags: Vec<Tag>,
    /// What stands between tags.
    pub texts: Vec<String>,
}

/// A tag that begins an element.
#[derive(Debug, Default)]
pub struct Tag {
    pub name: String,
    pub attributes: Vec<(String, String)>,
}

impl Markup {
    pub fn of(page: &str) -> Self {
        let mut read = Self::default();
        let mut rest = page;
        while let Some(at) = rest.find('<') {
            read.texts.push(rest[..at].to_owned());
            rest = &rest[at + 1..];
            if let Some(comment) = rest.strip_prefix("!--") {
                read.tags.push(Tag { name: "!--".to_owned(), attributes: Vec::new() });
                rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
            } else if rest.starts_with(['!', '/', '?']) {
                rest = rest.split_once('>').map_or("", |(_, behind)| behind);
            } else if rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
                let (tag, behind) = tag(rest);
                rest = behind;
                // Within these there are no tags.
                if matches!(&*tag.name, "script" | "style" | "title" | "textarea") {
                    let end = format!("</{}", tag.name);
                    let at = rest.to_ascii_lowercase().find(&end).unwrap_or(rest.len());
                    if tag.name != "textarea" {
                        read.texts.push(rest[..at].to_owned());
                    }
                    rest = &rest[at..];
                }
                read.tags.push(tag);
            } else {
                read.texts.push("<".to_owned());
            }
        }
        read.texts.push(rest.to_owned());
        read
    }
}

/// A tag behind its `<`, and what is behind it.
fn tag(text: &str) -> (Tag, &str) {
    let ends_name = |letter: char| letter.is_ascii_whitespace() || matches!(letter, '/' | '>');
    let (name, mut rest) = text.split_at(text.find(ends_name).unwrap_or(text.len()));
    let mut tag = Tag { name: name.to_ascii_lowercase(), attributes: Vec::new() };
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_ascii_whitespace() || letter == '/');
        if rest.is_empty() || rest.starts_with('>') {
            return (tag, rest.strip_prefix('>').unwrap_or_default());
        }
        // A name that begins with `=` has it as a letter.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end =
            rest[first..].find(|letter: char| ends_name(letter) || letter == '=').map_or(rest.len(), |at| at + first);
        let name = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start_matches(|letter: char| letter.is_ascii_whitespace());
        let mut value = "";
        if let Some(behind) = rest.strip_prefix('=') {
            let behind = behind.trim_start_matches(|letter: char| letter.is_ascii_whitespace());
            let quote = behind.chars().next().filter(|first| matches!(first, '"' | '\''));
            (value, rest) = match quote {
                Some(quote) => behind[1..].split_once(quote).unwrap_or((&behind[1..], "")),
                None => behind.split_at(behind.find(ends_name).filter(|at| *at > 0).unwrap_or(behind.len())),
            };
        }
        tag.attributes.push((name, value.to_owned()));
    }
}

/// Proves of a page that no element, no attribute and no address in it is of somebody else, that whatever can't be seen is a mark, and that
/// it is neither a failure nor too long.
#[track_caller]
pub fn is_harmless(answer: &Answer, path: &str) {
    let page = &answer.text;
    assert!(answer.status.as_u16() < 500, "{path}: {} {page}", answer.status);
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8", "{path}: {page}");
    assert!(page.len() <= PAGE_BYTES_MAX, "{path} has {} bytes", page.len());
    let read = Markup::of(page);
    let count = |name: &str| read.tags.iter().filter(|tag| tag.name == name).count();
    assert_eq!(["html", "body", "script", "h1", "!--"].map(count), [1, 1, 1, 1, 0], "{path}: {page}");
    for tag in &read.tags {
        is_of_page(tag, path);
    }
    for text in &read.texts {
        let hidden = text.chars().find(|letter| is_hidden(*letter) && !matches!(letter, '\n' | '\t'));
        assert_eq!(hidden, None, "{path}: {text:?}");
        is_escaped(text, path);
    }
}

#[track_caller]
fn is_of_page(tag: &Tag, path: &str) {
    assert!(!tag.name.contains(MARK) && tag.name != "style" && tag.name != "img", "{path}: {tag:?}");
    for (name, value) in &tag.attributes {
        assert!(!name.contains(MARK) && !name.starts_with("on") && name != "style", "{path}: {tag:?}");
        assert!(!name.contains(['<', '"', '\'']), "{path}: {tag:?}");
        if ADDRESSES.contains(&&**name) {
            let is_own = value.is_empty() || value.starts_with('#') || value == "/ui" || value.starts_with("/ui/");
            assert!(is_own || value.starts_with("/ui?"), "{path}: {tag:?}");
        }
        // What is typed into a field stays as it was typed; it is a text to the browser.
        let is_typed = tag.name == "input" && name == "value";
        assert!(is_typed || !value.chars().any(is_hidden), "{path}: {tag:?}");
        is_escaped(value, path);
    }
}

/// Nothing that others wrote is read as a character of another kind.
#[track_caller]
fn is_escaped(text: &str, path: &str) {
    for (at, _) in text.match_indices('&') {
        assert!(ESCAPES.iter().any(|escape| text[at..].starts_with(escape)), "{path}: {text:?}");
    }
}

#[test]
fn markup_is_found_wherever_a_browser_would_find_it() {
    let names = |page: &str| {
        let read = Markup::of(page);
        let name = |tag: &Tag| {
            let attributes = tag.attributes.iter().map(|(name, value)| format!(" {name}={value}"));
            format!("{}{}", tag.name, attributes.collect::<String>())
        };
        read.tags.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names("<a href=\"/ui\">x</a><B ZQ>"), ["a href=/ui", "b zq="]);
    assert_eq!(names("<p title='a > b' zq=1/>&lt;b&gt;<br>"), ["p title=a > b zq=1", "br"]);
    assert_eq!(names("<svg/onload=x zq>"), ["svg onload=x zq="]);
    assert_eq!(names("<title><b zq></title><i zq>"), ["title", "i zq="]);
    assert_eq!(names("a < b <!-- <b> --><c>"), ["!--", "c"]);
    assert_eq!(names("<input value=\"\" zq=\"1\" x>"), ["input value= zq=1 x="]);
    assert_eq!(names("<a =x=1 y = 2>"), ["a =x=1 y=2"]);
    let texts: String = Markup::of("a<b>c</b>d<title>e</title>").texts.concat();
    assert_eq!(texts, "acde");
}
