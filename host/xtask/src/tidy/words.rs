//! Names that explain nothing until their file has been read. What the thing is in the terms of the field says more: settlement
//! report, operator command, ownership, event kind, repair, wake.

/// Types that say nothing of what they hold.
const TYPES: [&str; 11] =
    ["Told", "Wish", "Word", "Line", "Seen", "Board", "What", "Way", "Judge", "Numbered", "OneDead"];
/// Functions that say nothing of what they do.
const FUNCTIONS: [&str; 5] = ["mend", "doubt", "knock", "look", "told"];
/// Files and folders that say nothing of what is in them.
const FILES: [&str; 6] = ["rest.rs", "one.rs", "out.rs", "misc.rs", "util.rs", "once"];
/// What a type's name stands behind where it is defined.
const DEFINES: [&str; 4] = ["struct", "enum", "trait", "type"];

/// What may stand before the keyword, beside the visibility.
const QUALIFIERS: [&str; 4] = ["async", "const", "unsafe", "extern"];

/// What is wrong with the file's path.
pub fn in_path(name: &str) -> Option<String> {
    let part = name.split('/').find(|part| FILES.contains(part))?;
    Some(format!("{name}: {part:?} doesn't tell what is in it"))
}

/// The private word that this line of Rust defines: `pub(super) async fn look(` defines `look`.
pub fn defined_in(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public.strip_prefix('(').and_then(|scope| scope.split_once(')')).map_or(public, |(_, rest)| rest);
    }
    let mut words = rest.split_whitespace().skip_while(|word| QUALIFIERS.contains(word));
    let keyword = words.next()?;
    let name = words.next()?;
    let name = name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    let private: &[&str] = match keyword {
        "fn" => &FUNCTIONS,
        _ if DEFINES.contains(&keyword) => &TYPES,
        _ => return None,
    };
    private.contains(&name).then_some(name)
}

/// Doc comments of one line and three words or fewer: most of them repeat the name.
pub fn short_docs(text: &str) -> usize {
    let doc = |line: &str| line.trim_start().strip_prefix("///").map(|words| words.split_whitespace().count());
    let lines: Vec<Option<usize>> = text.lines().map(doc).collect();
    let alone = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| lines.get(before)).copied().flatten();
        before.is_none() && lines.get(at + 1).copied().flatten().is_none()
    };
    lines.iter().enumerate().filter(|(at, words)| words.is_some_and(|words| words <= 3) && alone(*at)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_word_is_found_where_it_is_defined() {
        assert_eq!(defined_in("pub(super) enum What {"), Some("What"));
        assert_eq!(defined_in("    pub async fn look(&self) -> Look {"), Some("look"));
        assert_eq!(defined_in("struct Line<'a> {"), Some("Line"));
        let good =
            ["fn lookup()", "/// type What", "let line = Line::new();", "struct LineBreak;", "(\"enum What {\")"];
        for good in good {
            assert_eq!(defined_in(good), None, "{good}");
        }
        assert!(in_path("host/a/src/rest.rs").is_some() && in_path("host/a/src/once/mod.rs").is_some());
        assert!(in_path("host/a/src/interest.rs").is_none());
    }

    #[test]
    fn short_doc_comments_are_counted() {
        assert_eq!(short_docs("/// Its name.\nname: u8,\n/// Bytes that one call may send.\nbytes: u8,\n"), 1);
        assert_eq!(short_docs("/// Reads.\n///\n/// # Errors\n/// None.\nfn read() {}\n"), 0);
    }
}
