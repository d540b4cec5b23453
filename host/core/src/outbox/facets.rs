//! How often each value of a few members stands in what a filter takes: what a list is narrowed by.

use std::collections::HashMap;

/// Values told of one member, the most frequent first.
pub const FACET_VALUES_MAX: usize = 50;
/// Rows that are looked at for one answer.
pub const FACET_READS_MAX: usize = 10_000;

/// A member that is counted by its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Facet {
    Tenant,
    /// What a dead letter is of.
    Kind,
    State,
    /// What it waits for.
    Waits,
    /// Code of its latest error.
    Code,
    Topic,
    Transport,
}

impl Facet {
    pub const ALL: [Self; 7] =
        [Self::Tenant, Self::Kind, Self::State, Self::Waits, Self::Code, Self::Topic, Self::Transport];

    /// As in JSON, and as conditions of a filter name it where they can.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Kind => "kind",
            Self::State => "state",
            Self::Waits => "waits",
            Self::Code => "code",
            Self::Topic => "topic",
            Self::Transport => "transport",
        }
    }
}

/// Counts of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacetCounts {
    pub facet: Facet,
    /// The most frequent first; equal ones by value.
    pub values: Vec<(String, u64)>,
    /// Items whose values aren't among these.
    pub others: u64,
}

/// Gathers values of items given one after another. It holds as many texts as it is given: callers bound the items.
#[derive(Debug, Default)]
pub struct Facets {
    counts: [HashMap<String, u64>; Facet::ALL.len()],
    items: u64,
}

impl Facets {
    /// Counts an item with its values; one without a member isn't counted there.
    pub fn add<'a>(&mut self, values: impl IntoIterator<Item = (Facet, &'a str)>) {
        self.items += 1;
        for (facet, value) in values {
            let Some(counts) = self.counts.get_mut(facet as usize) else { continue };
            match counts.get_mut(value) {
                Some(count) => *count += 1,
                None => drop(counts.insert(value.to_owned(), 1)),
            }
        }
    }

    /// Items that were counted.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// What was counted, each member in turn.
    pub fn finish(self) -> Vec<FacetCounts> {
        let counts = Facet::ALL.into_iter().zip(self.counts);
        counts
            .map(|(facet, counts)| {
                let mut values: Vec<(String, u64)> = counts.into_iter().collect();
                values.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
                let rest = values.split_off(values.len().min(FACET_VALUES_MAX));
                FacetCounts { facet, values, others: rest.iter().map(|(_, count)| count).sum() }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(counts: &[FacetCounts], facet: Facet) -> &FacetCounts {
        counts.iter().find(|counts| counts.facet == facet).unwrap()
    }

    #[test]
    fn values_are_counted_the_most_frequent_first() {
        let mut facets = Facets::default();
        for (state, code) in [("done", None), ("pending", Some("A.B")), ("done", Some("A.A")), ("x", Some("A.A"))] {
            facets.add([(Facet::State, state)].into_iter().chain(code.map(|code| (Facet::Code, code))));
        }
        assert_eq!(facets.items(), 4);
        let counts = facets.finish();
        let told =
            |facet| of(&counts, facet).values.iter().map(|(value, count)| (&**value, *count)).collect::<Vec<_>>();
        assert_eq!(told(Facet::State), [("done", 2), ("pending", 1), ("x", 1)]);
        assert_eq!(told(Facet::Code), [("A.A", 2), ("A.B", 1)]);
        assert_eq!(told(Facet::Topic), []);
    }

    #[test]
    fn what_is_past_the_bound_is_told_as_a_number() {
        let mut facets = Facets::default();
        for number in 0..FACET_VALUES_MAX + 3 {
            let topic = format!("bus:{number:03}");
            facets.add([(Facet::Topic, &*topic)]);
            facets.add([(Facet::Topic, &*topic)]);
        }
        let counts = facets.finish();
        let topics = of(&counts, Facet::Topic);
        assert_eq!((topics.values.len(), topics.others), (FACET_VALUES_MAX, 6));
        assert_eq!(topics.values.first().unwrap().0, "bus:000");
    }

    #[test]
    fn members_are_numbered_in_their_order() {
        for (place, facet) in Facet::ALL.into_iter().enumerate() {
            assert_eq!(facet as usize, place, "{}", facet.as_str());
        }
    }
}
