//! Cursors of named streams as text: a number, `seq~purged` below a dropped delete, several with commas between.

use std::sync::Arc;

/// Streams whose positions fit into one text. A reader of more gets the position of the event's own stream.
pub(in crate::streams) const STREAMS_MAX: usize = 64;

/// A position, and the mark of dropped deletes when its reader began with nothing.
pub(in crate::streams) type Position = (u64, Option<u64>);

/// Positions as text, in the order asked for.
pub(in crate::streams) fn text_of(positions: impl Iterator<Item = Position>) -> Arc<str> {
    let mut text = String::new();
    for (seq, purged) in positions {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&seq.to_string());
        if let Some(purged) = purged {
            text.push('~');
            text.push_str(&purged.to_string());
        }
    }
    Arc::from(text)
}

/// Reads it back; none = it isn't the cursor of so many streams.
pub(in crate::streams) fn positions(text: &str, count: usize) -> Option<Vec<Position>> {
    let one = |text: &str| {
        let (seq, purged) = match text.split_once('~') {
            Some((seq, purged)) => (seq, Some(purged.parse().ok()?)),
            None => (text, None),
        };
        Some((seq.parse().ok()?, purged))
    };
    let positions: Option<Vec<Position>> = text.split(',').map(one).collect();
    positions.filter(|positions| positions.len() == count && count <= STREAMS_MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn positions_come_back_in_the_order_asked_for() {
        let asked = [(7, None), (0, Some(12)), (u64::MAX, None)];
        let text = text_of(asked.into_iter());
        assert_eq!(&*text, "7,0~12,18446744073709551615");
        assert_eq!(positions(&text, 3).unwrap(), asked);
    }

    #[test]
    fn a_cursor_of_another_count_or_of_anything_else_is_none() {
        for (text, count) in [("7", 2), ("7,8", 1), ("", 1), ("x", 1), ("1~", 1), ("-1", 1), ("1~2~3", 1)] {
            assert_eq!(positions(text, count), None, "{text}");
        }
        let many = vec!["1"; STREAMS_MAX + 1].join(",");
        assert_eq!(positions(&many, STREAMS_MAX + 1), None);
    }
}
