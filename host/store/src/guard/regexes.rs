//! Regular expressions, which SurrealDB compiles while it parses: each takes megabytes, so none may reach the parser.
//!
//! The text is taken apart by SurrealDB's own lexer. It knows strings, quoted names and comments; whether a `/` divides or begins a
//! regular expression only the parser knows. So one is taken if it can't be anything but a division: behind it is no other `/` that
//! would end a regular expression, or before it stands what only an operator can follow.

use surrealdb_syn::lexer::Lexer;
use surrealdb_syn::token::{Delim, Keyword, StringKind, Token, TokenKind};

const REFUSED: &str = "regular expressions aren't taken, since compiling one takes much memory: compare with string::contains, \
                       string::starts_with or string::ends_with. In a division of names write each side in parentheses";

/// Marks of comments in a text: SurrealDB's lexer calls itself for each comment that follows another one, so thousands of them would
/// take the thread's stack.
const COMMENTS_MAX: usize = 250;

/// Refuses a text whose parsing may compile a regular expression, or take the thread's stack for comments.
pub fn refuse_regexes(text: &str) -> Result<(), String> {
    let marks = ["#", "--", "//", "/*"].iter().map(|mark| text.matches(mark).count()).sum::<usize>();
    if marks > COMMENTS_MAX {
        return Err(format!(
            "it holds #, --, // and /* {marks} times, at most {COMMENTS_MAX} are taken, since each may begin a comment: put texts into \
             bindings"
        ));
    }
    let last = text.rfind('/').unwrap_or(0);
    let mut lexer = Lexer::new(text.as_bytes());
    // The token before, and the one before that.
    let (mut before, mut earlier) = (TokenKind::Eof, TokenKind::Eof);
    loop {
        let Token { kind, span } = lexer.next_token();
        let (start, end) = (span.offset as usize, span.after_offset() as usize);
        match kind {
            TokenKind::Eof => return Ok(()),
            // What follows them is an expression behind words that look like names.
            TokenKind::Keyword(Keyword::Explain | Keyword::Alter | Keyword::Define)
                if start < last && before != TokenKind::Dot =>
            {
                return Err(REFUSED.to_owned());
            }
            TokenKind::ForwardSlash if start < last && !is_operand(before, earlier) => return Err(REFUSED.to_owned()),
            // It is parsed in its turn, after what is escaped in it was put in place.
            TokenKind::String(StringKind::RecordId | StringKind::RecordIdDouble)
                if text.get(start..end).is_none_or(|inside| inside.contains(['/', '\\'])) =>
            {
                return Err("a record id in a text (r'...') is taken without / and \\".to_owned());
            }
            // What follows isn't SurrealQL.
            TokenKind::OpenDelim(Delim::Paren) if before == TokenKind::Keyword(Keyword::Function) => {
                return Err("scripts aren't taken".to_owned());
            }
            _ => {}
        }
        (before, earlier) = (kind, before);
    }
}

/// Whether a token is the end of a value for certain, and not of what a value may follow.
fn is_operand(token: TokenKind, earlier: TokenKind) -> bool {
    match token {
        TokenKind::CloseDelim(Delim::Paren | Delim::Bracket) | TokenKind::Digits => true,
        // Behind INSERT INTO a name, the data begin without a word between.
        TokenKind::Identifier | TokenKind::Parameter => earlier != TokenKind::Keyword(Keyword::Into),
        // The name of a field may be a keyword.
        TokenKind::Keyword(_)
        | TokenKind::Algorithm(_)
        | TokenKind::Language(_)
        | TokenKind::Distance(_)
        | TokenKind::VectorType(_) => earlier == TokenKind::Dot,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn divisions_strings_and_comments_pass() {
        for text in [
            "RETURN 1",
            "RETURN 6 / 3",
            "RETURN 6 / 3 / 2",
            "SELECT price / quantity AS each, total / 2 AS half FROM line",
            "SELECT a.value / b.count, $x / $y / 2, (a + b) / 2 / (c), list[0] / list[1] FROM line",
            "SELECT level / 2 FROM line",
            "CREATE a SET url = 'https://example.org/a/b', path = \"/x/\", `a/b` = 1, ⟨c/d⟩ = 2",
            "RETURN 1 // /a/ and more",
            "RETURN 1 -- /a/ and more",
            "RETURN 1 # /a/ and more\n",
            "RETURN 1 /* /a/ and more */ + 1",
            "RETURN 'it\\'s /a/'",
            "INSERT INTO line { each: $a / 2, half: b / 2 }",
            "SELECT a.define / 2 + b.explain / 2 FROM line",
        ] {
            assert_eq!(refuse_regexes(text), Ok(()), "{text}");
            assert!(surrealdb_syn::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn thousands_of_comments_are_refused() {
        for text in ["#\n", "-- a\n", "// a\n ", "/**/", "/**/ -- b\n"] {
            assert!(refuse_regexes(&format!("{}RETURN 1", text.repeat(50_000))).is_err(), "{text}");
            assert_eq!(refuse_regexes(&format!("{}RETURN 1", text.repeat(100))), Ok(()), "{text}");
        }
    }

    /// SurrealDB's parser really compiles what is refused here: each of these holds a regular expression that it complains of.
    #[test]
    fn whatever_the_parser_takes_for_a_regular_expression_is_refused() {
        for text in [
            "RETURN /(/",
            "RETURN [1, /(/]",
            "RETURN [/(/]",
            "RETURN (/(/)",
            "RETURN 1 = /(/",
            "RETURN 1 / /(/",
            "RETURN 6 / 2 + /(/",
            "RETURN 'a' IN /(/",
            "RETURN !/(/",
            "RETURN -/(/",
            "RETURN <string> /(/",
            "RETURN /* a */ /(/",
            "RETURN // a\n /(/",
            "RETURN -- a\r/(/",
            "RETURN # a\u{2028}/(/",
            "RETURN '\\'' + /(/",
            "RETURN IF /(/ { 1 }",
            "RETURN array::map([1], |$x| /(/)",
            "RETURN array::len(/(/)",
            "SELECT /(/ AS a FROM t",
            "SELECT VALUE /(/ FROM t",
            "SELECT * FROM /(/",
            "SELECT * FROM t WHERE /(/",
            "SELECT * FROM t WHERE a = 1 AND /(/",
            "SELECT * FROM t LIMIT /(/",
            "SELECT a[WHERE /(/] FROM t",
            "CREATE t SET a = /(/",
            "CREATE t SET a += /(/",
            "CREATE t CONTENT /(/",
            "INSERT INTO t /(/",
            "INSERT INTO $t /(/",
            "UPDATE t MERGE /(/",
            "UPDATE t PATCH /(/",
            "LET $x = /(/",
        ] {
            assert!(refuse_regexes(text).is_err(), "{text} passed");
            let error = surrealdb_syn::parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.to_lowercase().contains("regex"), "{text}: {error}");
        }
        // These are parsed more than once, and what the parser says in the end is something else.
        for text in [
            "EXPLAIN ANALYZE /(/",
            "RETURN [EXPLAIN ANALYZE /(/]",
            "EXPLAIN FORMAT JSON /(/",
            "ALTER SYSTEM QUERY_TIMEOUT /(/ QUERY_TIMEOUT /(/",
            "RETURN {/(/}",
            "RETURN { a: /(/ }",
            "RETURN { 1; /(/ }",
            "RETURN ../(/",
            "RETURN IF true THEN /(/ END",
            "INSERT INTO t (a) VALUES (/(/)",
            "CREATE t:[/(/]",
            "RETURN r't:[/(/]'",
            "RETURN r\"t:[/(/]\"",
            "RETURN r't:[\\u{2f}(\\u{2f}]'",
            "RETURN function() { return /'/ } + /(/",
        ] {
            assert!(refuse_regexes(text).is_err(), "{text} passed");
        }
    }
}
