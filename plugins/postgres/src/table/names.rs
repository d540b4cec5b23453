//! Names and texts as they stand in a statement. What is written here comes from the configuration or the catalog; a row's
//! values are always parameters.

use postgres_protocol::escape;

/// A name of a column or table, taken as it is.
pub(crate) fn quoted(name: &str) -> String {
    escape::escape_identifier(name)
}

/// A text of the configuration, whatever `standard_conforming_strings` says.
pub(crate) fn literal(text: &str) -> String {
    escape::escape_literal(text)
}

/// A text as a part of a pattern of LIKE that means itself.
pub(crate) fn like_prefix(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 1);
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    literal(&pattern)
}

/// An instant as milliseconds since 1970; NULL where it is none that could be told so, for one row must not end a whole answer.
/// `minus` is taken off it, e.g. ` - now()`.
pub(crate) fn millis(stamp: &str, minus: &str) -> String {
    format!("CASE WHEN isfinite({stamp}) THEN (date_part('epoch', {stamp}{minus}) * 1000)::bigint END")
}

/// A table's name as an operator writes it: `outbox_events`, `shop.outbox_events`, `"Shop"."Outbox"`. Without quotes it is folded
/// to lower case, as SQL does.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn table(text: &str) -> Result<String, &'static str> {
    let (mut parts, mut part, mut rest) = (Vec::new(), None, text);
    while let Some(letter) = rest.chars().next() {
        let behind = rest.get(letter.len_utf8()..).unwrap_or_default();
        rest = match letter {
            '"' if part.is_none() => {
                let (name, behind) = until_quote(behind)?;
                part = Some(name);
                if !behind.is_empty() && !behind.starts_with('.') {
                    return Err("goes on behind a closing quote");
                }
                behind
            }
            '.' => {
                parts.push(part.take().ok_or("has a part without a name")?);
                if behind.is_empty() {
                    return Err("has a part without a name");
                }
                behind
            }
            letter if letter.is_alphanumeric() || matches!(letter, '_' | '$' | '-') => {
                part.get_or_insert_with(String::new).extend(letter.to_lowercase());
                behind
            }
            _ => return Err("has a letter that has to stand in double quotes"),
        };
    }
    parts.push(part.ok_or("is empty")?);
    match parts.len() {
        1 | 2 => Ok(parts.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".")),
        _ => Err("has more parts than a schema and a table"),
    }
}

/// What stands before the closing quote, and what follows it.
fn until_quote(text: &str) -> Result<(String, &str), &'static str> {
    let (mut name, mut rest) = (String::new(), text);
    loop {
        let (piece, behind) = rest.split_once('"').ok_or("has a quote too few")?;
        name.push_str(piece);
        match behind.strip_prefix('"') {
            Some(behind) => {
                name.push('"');
                rest = behind;
            }
            None if name.is_empty() => return Err("has a part without a name"),
            None if name.contains('\0') => return Err("has a zero byte"),
            None => return Ok((name, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_of_tables_are_read_as_sql_does() {
        for (text, expected) in [
            ("outbox_events", r#""outbox_events""#),
            ("Shop.Outbox_Events", r#""shop"."outbox_events""#),
            (r#""Shop"."OutboxEvent""#, r#""Shop"."OutboxEvent""#),
            (r#"shop."we.ird ""name""""#, r#""shop"."we.ird ""name""""#),
        ] {
            assert_eq!(table(text).unwrap(), expected, "{text}");
        }
        for text in ["", ".", "a.", ".a", "a.b.c", "a b", "a;drop", "\"a", "\"\"", "\"a\"b", "a'b"] {
            assert!(table(text).is_err(), "{text}");
        }
    }

    #[test]
    fn texts_mean_themselves() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\b'"), r" E'a\\b'''");
        assert_eq!(like_prefix("DEAD "), "'DEAD %'");
        assert_eq!(like_prefix("10%_"), r" E'10\\%\\_%'");
    }
}
