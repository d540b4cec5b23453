//! What is wrong with a text that isn't JSON, or isn't the JSON that is asked for, in words for whoever wrote it: those of the
//! parser are for its callers.

use serde_json::Error;

/// What is wrong, without the place: line and column are told apart.
pub fn fault(error: &Error) -> String {
    let text = error.to_string();
    let end = if error.line() > 0 { text.rfind(" at line ") } else { None };
    let said = end.and_then(|end| text.get(..end)).unwrap_or(&text);
    plain(said).unwrap_or(said).to_owned()
}

/// The same with the place.
pub fn placed_fault(error: &Error) -> String {
    format!("{} (line {}, column {})", fault(error), error.line(), error.column())
}

/// Other words for a sentence of the parser, where there are any.
fn plain(said: &str) -> Option<&'static str> {
    Some(match said {
        "EOF while parsing a list" => "it ends in the middle of a list",
        "EOF while parsing an object" => "it ends in the middle of an object",
        "EOF while parsing a string" => "it ends in the middle of a text",
        "EOF while parsing a value" => "it ends where a value is due",
        "expected `:`" => "a colon is due between name and value",
        "expected `,` or `]`" => "a comma or ] is due",
        "expected `,` or `}`" => "a comma or } is due",
        "expected ident" => "without quotes there are only numbers, true, false and null",
        "expected value" => "a value is due",
        "key must be a string" => "a name is due, in double quotes",
        "trailing comma" => "a comma stands behind the last one",
        "trailing characters" => "something stands behind its end",
        "recursion limit exceeded" => "it is nested too deep",
        "invalid escape" => "a backslash stands before what can't be escaped",
        "invalid number" => "a number isn't written as JSON writes it",
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => "half of a character is escaped",
        "control character (\\u0000-\\u001F) found while parsing a string" => {
            "a line break or another control character stands in a text: escape it, as \\n"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde::Deserialize;
    use serde_json::{Value, from_str};

    use super::*;

    #[test]
    fn a_fault_of_syntax_is_told_in_plain_words() {
        for (text, told) in [
            ("", "it ends where a value is due"),
            ("{", "it ends in the middle of an object"),
            ("[1,", "it ends where a value is due"),
            ("[1", "it ends in the middle of a list"),
            ("\"a", "it ends in the middle of a text"),
            ("{a:1}", "a name is due, in double quotes"),
            ("{\"a\" 1}", "a colon is due between name and value"),
            ("{\"a\":}", "a value is due"),
            ("[1 2]", "a comma or ] is due"),
            ("[1,]", "a comma stands behind the last one"),
            ("tru", "it ends where a value is due"),
            ("trux", "without quotes there are only numbers, true, false and null"),
            ("1 2", "something stands behind its end"),
            ("01", "a number isn't written as JSON writes it"),
            ("\"\\q\"", "a backslash stands before what can't be escaped"),
            ("\"a\nb\"", "a line break or another control character stands in a text: escape it, as \\n"),
        ] {
            assert_eq!(fault(&from_str::<Value>(text).unwrap_err()), told, "{text}");
        }
        assert_eq!(placed_fault(&from_str::<Value>("{\n\"a\":}").unwrap_err()), "a value is due (line 2, column 5)");
    }

    #[test]
    fn a_fault_of_another_kind_keeps_its_words() {
        #[derive(Debug, Deserialize)]
        struct Named {
            #[expect(dead_code, reason = "only its reading matters")]
            name: String,
        }
        assert_eq!(fault(&from_str::<Named>("{}").unwrap_err()), "missing field `name`");
    }
}
