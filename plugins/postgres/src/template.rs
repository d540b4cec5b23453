//! Text with places for a row's columns: `bus:{routing_key}`, `outbox-{id}`.

use crate::table::names;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Column(String),
}

/// Text with places for columns, by the names they have in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

impl Template {
    /// Reads `text with {column}`; `{{` and `}}` are braces.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(letter) = rest.chars().next() {
            let after = rest.get(letter.len_utf8()..).unwrap_or_default();
            rest = match letter {
                '{' | '}' if after.starts_with(letter) => {
                    plain.push(letter);
                    after.get(1..).unwrap_or_default()
                }
                '{' => {
                    let (name, behind) = after.split_once('}').ok_or("has a { without its }")?;
                    if name.is_empty() {
                        return Err("has {} without a column's name".to_owned());
                    }
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Column(name.to_owned()));
                    behind
                }
                '}' => return Err("has a } without its {; write }} for a brace".to_owned()),
                '\0' => return Err("has a zero byte".to_owned()),
                letter => {
                    plain.push(letter);
                    after
                }
            };
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        if pieces.is_empty() {
            return Err("is empty".to_owned());
        }
        Ok(Self(pieces))
    }

    /// The columns it needs; one may be there twice.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Column(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text with a row's values in it.
    ///
    /// # Errors
    /// The first column that is NULL there.
    pub(crate) fn filled<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> Result<String, &str> {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Column(name) => out.push_str(value(name).ok_or(name.as_str())?),
            }
        }
        Ok(out)
    }

    /// The same as an SQL expression, which is NULL where one of its columns is. Nothing of it comes from a row.
    pub(crate) fn expression(&self, alias: &str) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => names::literal(text),
            Piece::Column(name) => format!("{alias}{}::text", names::quoted(name)),
        });
        pieces.collect::<Vec<_>>().join(" || ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn filled(template: &str) -> Result<String, String> {
        let value = |name: &str| match name {
            "id" => Some("7"),
            "routing_key" => Some("orders.created"),
            _ => None,
        };
        Template::parse(template)?.filled(value).map_err(str::to_owned)
    }

    #[test]
    fn places_are_filled_and_doubled_braces_are_braces() {
        assert_eq!(filled("bus:{routing_key}").unwrap(), "bus:orders.created");
        assert_eq!(filled("outbox-{id}").unwrap(), "outbox-7");
        assert_eq!(filled("{{{id}}}").unwrap(), "{7}");
        assert_eq!(filled("fixed").unwrap(), "fixed");
    }

    #[test]
    fn a_row_without_the_value_has_no_text() {
        assert_eq!(filled("a-{absent}-{id}").unwrap_err(), "absent");
    }

    #[test]
    fn what_can_not_be_read_is_refused() {
        for template in ["", "{", "}", "{id", "a}", "{}", "{{}", "a\0"] {
            assert!(Template::parse(template).is_err(), "{template:?}");
        }
    }

    #[test]
    fn as_sql_names_and_texts_are_quoted() {
        let template = Template::parse(r#"o'k\{ty"pe}/{id}"#).unwrap();
        assert_eq!(template.expression("o."), r#" E'o''k\\' || o."ty""pe"::text || '/' || o."id"::text"#);
        assert_eq!(template.columns().collect::<Vec<_>>(), [r#"ty"pe"#, "id"]);
    }
}
