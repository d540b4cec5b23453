//! Arrays as text, the form in which they are parameters.

/// An array of texts, with NULL where there is none.
pub(crate) fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> String {
    let mut out = String::from("{");
    for (place, value) in values.enumerate() {
        if place > 0 {
            out.push(',');
        }
        match value {
            None => out.push_str("NULL"),
            Some(text) => {
                out.push('"');
                // A zero byte can't be in a text of PostgreSQL.
                for letter in text.chars().filter(|letter| *letter != '\0') {
                    if matches!(letter, '"' | '\\') {
                        out.push('\\');
                    }
                    out.push(letter);
                }
                out.push('"');
            }
        }
    }
    out.push('}');
    out
}

/// An array of whole numbers.
pub(crate) fn numbers(values: impl Iterator<Item = u32>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    format!("{{{}}}", values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_means_itself() {
        assert_eq!(texts(std::iter::empty()), "{}");
        let values = [Some("a"), None, Some(""), Some("NULL"), Some("a\"b\\c,{}"), Some("größe\0")];
        assert_eq!(texts(values.into_iter()), r#"{"a",NULL,"","NULL","a\"b\\c,{}","größe"}"#);
        assert_eq!(numbers([1, 20].into_iter()), "{1,20}");
    }
}
