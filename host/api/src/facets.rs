//! What a list can be narrowed by, counted.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::outbox::facets::FacetCounts;

use crate::instant::Instant;

/// How often each value stands in what a filter takes, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Facets)]
pub struct FacetsView {
    /// Items that match, as far as was looked.
    pub counted: u64,
    /// It ended at its bound, 10,000 rows or two seconds: there may be more.
    pub partial: bool,
    /// Where it did, if it was among messages: when the last one was enqueued that was counted.
    pub counted_since: Option<Instant>,
    pub facets: Vec<FacetView>,
}

/// Values of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Facet)]
pub struct FacetView {
    /// `tenant`, `kind` (of dead letters), `state`, `waits`, `code` (of the latest error), `topic` (or what stands for it) or `transport`;
    /// others may come.
    pub name: String,
    /// The most frequent first, 50 at most.
    pub values: Vec<FacetValue>,
    /// Items with other values.
    pub others: u64,
}

/// A value, and how many have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FacetValue {
    pub value: String,
    pub count: u64,
}

impl From<FacetCounts> for FacetView {
    fn from(counts: FacetCounts) -> Self {
        let values = counts.values.into_iter().map(|(value, count)| FacetValue { value, count });
        Self { name: counts.facet.as_str().to_owned(), values: values.collect(), others: counts.others }
    }
}
