//! What a claim's rows are marked with: collected, then one statement for each kind of fate.

use crate::table::marks::{Marks, Other};
use crate::wire::Pipeline;

/// Longest error that is written to a table, in characters.
const ERROR_CHARS_MAX: usize = 1_000;

/// Marks of one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marking {
    /// Keys of rows that are published.
    pub(crate) published: Vec<String>,
    pub(crate) others: Vec<Other>,
}

impl Marking {
    pub(crate) fn is_empty(&self) -> bool {
        self.published.is_empty() && self.others.is_empty()
    }

    /// The statements.
    pub(crate) fn pipeline(&self, marks: &Marks) -> Pipeline {
        let mut pipeline = Pipeline::new();
        if !self.published.is_empty() {
            let ids: Vec<&str> = self.published.iter().map(String::as_str).collect();
            let (statement, values) = marks.published(&ids);
            pipeline = pipeline.ask(statement, values);
        }
        if !self.others.is_empty() {
            let (statement, values) = marks.others(&self.others);
            pipeline = pipeline.ask(statement, values);
        }
        pipeline
    }
}

/// An error as a table keeps it: its code first, so that rows can be grouped by it.
pub(crate) fn error_text(code: &str, reason: &str) -> String {
    format!("{code}: {reason}").chars().take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::table4;

    #[test]
    fn each_kind_of_fate_is_one_statement() {
        let marks = Marks::new(&table4(), false);
        let other = Other { id: "3".to_owned(), attempts: 1, error: None, after: Some(1) };
        let mut marking = Marking::default();
        assert!(marking.is_empty());
        marking.published = vec!["1".to_owned(), "2".to_owned()];
        let asked = |marking: &Marking| marking.pipeline(&marks).encode(None).unwrap_or_default().asked;
        assert_eq!(asked(&marking), 1);
        marking.others = vec![other];
        assert_eq!(asked(&marking), 2);
    }

    #[test]
    fn an_error_is_cut_to_its_length() {
        assert_eq!(error_text("A.B", "no"), "A.B: no");
        assert_eq!(error_text("A.B", &"ö".repeat(2_000)).chars().count(), ERROR_CHARS_MAX);
    }
}
