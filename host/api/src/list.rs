//! Lists as answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::instant::Instant;

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    pub items: Vec<T>,
    /// Goes on after the last item; null at the end. A page may be short, or empty, before the end.
    pub next_cursor: Option<String>,
    /// How many match in all, if it was asked for with `count=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Set when the counting ended after a bounded number of dead letters, the latest first. The counts are then lower bounds: of what
    /// entered the order before this instant nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Instant>,
}

impl<T> List<T> {
    /// A list that fits one page.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None, count: None, counted_since: None }
    }
}
