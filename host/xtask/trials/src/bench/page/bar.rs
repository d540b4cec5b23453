//! A bar that a figure is held against.

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    Most(f64),
    Least(f64),
}

impl Bar {
    /// The bar in words, and whether a figure reaches it; without a figure the bar alone.
    pub fn cells(self, figure: Option<f64>) -> [String; 2] {
        let (words, is_reached) = match self {
            Self::Most(most) => (format!("at most {most}"), figure.map(|figure| figure <= most)),
            Self::Least(least) => (format!("at least {least}"), figure.map(|figure| figure >= least)),
        };
        let verdict = match is_reached {
            Some(true) => "reached",
            Some(false) => "short",
            None => "",
        };
        [words, verdict.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_reached_or_a_figure_is_short_of_it() {
        for (bar, figure, cells) in [
            (Bar::Most(100.0), Some(100.0), ["at most 100", "reached"]),
            (Bar::Most(1.02), Some(1.021), ["at most 1.02", "short"]),
            (Bar::Least(0.97), Some(0.97), ["at least 0.97", "reached"]),
            (Bar::Least(0.97), Some(0.969), ["at least 0.97", "short"]),
            (Bar::Least(0.97), None, ["at least 0.97", ""]),
        ] {
            assert_eq!(bar.cells(figure), cells, "{bar:?} {figure:?}");
        }
    }
}
