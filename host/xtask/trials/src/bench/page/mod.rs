//! What the page may cost: how soon its views begin to come beside 100,000 dead letters and a thousand deliveries a second, what those
//! deliveries and W1b notice of it, and how many bytes and requests a view is.
//!
//! Each figure stands beside its bar, and whether that is reached. Nothing fails by it.
//!
//! - `scene`: the host with dead letters, and the views that are loaded
//! - `load`: an address as a browser loads it
//! - `first_byte`, `open`, `size`: the three parts
//! - `pairs`, `bar`: runs without and with the page, and what a figure is held against

mod bar;
mod first_byte;
mod load;
mod open;
mod pairs;
mod scene;
mod size;

use std::fmt;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};

use super::Bench;
use super::figure::Figure;
use bar::Bar;
use first_byte::FirstBytes;
use pairs::Pairs;
use scene::Scene;
use size::Sizes;

/// Until a view begins to come, milliseconds, all but one in a hundred.
const FIRST_BYTE_MS: Bar = Bar::Most(100.0);
/// Age of deliveries on arrival, all but one in a hundred, by what it is while nobody reads.
const DELIVERIES: Bar = Bar::Most(1.1);
/// Rate of W1b, by what it is without an open page.
const RATE: Bar = Bar::Least(0.97);
/// CPU time of W1b, by what it is without an open page.
const CPU: Bar = Bar::Most(1.02);

/// All that was measured.
pub struct PageBudget {
    first_bytes: FirstBytes,
    deliveries: Pairs,
    sizes: Sizes,
    w1b: Pairs,
}

/// So many rounds of each part, W1b with so many messages.
pub async fn run(bench: &Bench, rounds: u32, messages: u64) -> Result<PageBudget> {
    let mut scene = Scene::set(bench).await?;
    let (first_bytes, deliveries) = first_byte::measure(&mut scene, rounds).await?;
    let sizes = size::measure(&scene).await?;
    scene.end().await?;
    let w1b = open::measure(bench, rounds, messages).await?;
    Ok(PageBudget { first_bytes, deliveries, sizes, w1b })
}

impl PageBudget {
    /// A JSON line for each view, each run and each size.
    pub fn lines(&self) -> Result<Vec<String>> {
        let mut lines = self.first_bytes.lines("page first byte")?;
        lines.extend(self.deliveries.lines("page deliveries")?);
        lines.extend(self.w1b.lines("page W1b")?);
        lines.extend(self.sizes.lines("page size")?);
        Ok(lines)
    }
}

impl fmt::Display for PageBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut views = table(["first byte of", "loads", "p50 ms", "p99 ms", "bar", ""]);
        for (view, figure) in self.first_bytes.figures() {
            let [bar, verdict] = FIRST_BYTE_MS.cells(figure.p99_ms);
            let loads = figure.messages.to_string();
            views.add_row([view.to_owned(), loads, cell(figure.p50_ms, 1), cell(figure.p99_ms, 1), bar, verdict]);
        }
        writeln!(f, "{views}")?;

        let mut beside = table(["beside", "without", "with", "ratio", "bar", ""]);
        let mut add = |what: &str, pairs: &Pairs, value: Value, places: usize, bar: Option<Bar>| {
            let (ratio, [without, with]) = (pairs.ratio(value), pairs.medians(value));
            let [bar, verdict] = bar.map_or_else(Default::default, |bar| bar.cells(ratio));
            let ratio = cell(ratio, 3);
            beside.add_row([what.to_owned(), cell(without, places), cell(with, places), ratio, bar, verdict]);
        };
        add("deliveries, p50 ms", &self.deliveries, |figure| figure.p50_ms, 2, None);
        add("deliveries, p99 ms", &self.deliveries, |figure| figure.p99_ms, 2, Some(DELIVERIES));
        add("deliveries, CPU s / 10k", &self.deliveries, |figure| figure.cpu_s_per_10k, 3, None);
        add("W1b, /s", &self.w1b, |figure| figure.rate, 0, Some(RATE));
        add("W1b, CPU s / 10k", &self.w1b, |figure| figure.cpu_s_per_10k, 3, Some(CPU));
        writeln!(f, "{beside}")?;
        write!(f, "{}", self.sizes)?;
        writeln!(
            f,
            "deliveries: {} a second, medians of {} rounds without and with {} readers, each of whom loads a view a second; first bytes are theirs\n\
             W1b: medians of {} rounds without and with an open page; ratios are medians of those of each pair",
            first_byte::RATE,
            self.deliveries.count(),
            first_byte::READERS,
            self.w1b.count(),
        )
    }
}

/// What of a figure is shown.
type Value = fn(&Figure) -> Option<f64>;

/// A table whose last two columns are a bar and whether it is reached.
fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1).take(N.saturating_sub(3)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn cell(value: Option<f64>, places: usize) -> String {
    value.map(|value| format!("{value:.places$}")).unwrap_or_default()
}
