//! How many bytes a view is on its way, compressed as a proxy in front compresses it, and how many requests it takes.

use std::fmt;
use std::io::Write as _;

use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::bar::Bar;
use super::load::{client, load, referred};
use super::scene::{Scene, hold};
use super::table;

/// As gzip compresses when nobody says how hard.
const LEVEL: u32 = 6;
/// Rows of a list.
const ROWS: usize = 50;
/// How a row of a list begins; those of other tables can't be reached by keys.
const ROW: &str = "<tr tabindex=";
/// A list of so many rows, bytes.
const LIST: Bar = Bar::Most(12_000.0);
/// The one style sheet of all views, bytes.
const STYLE: Bar = Bar::Most(7_000.0);
/// The one script of all views, bytes.
const SCRIPT: Bar = Bar::Most(4_000.0);
/// Requests beside icon and event source: the view, its style, its script; and when the browser has these already.
const REQUESTS: [Bar; 2] = [Bar::Most(3.0), Bar::Most(1.0)];

#[derive(Debug, Serialize)]
struct Size {
    what: &'static str,
    bytes: usize,
    gzipped: usize,
    #[serde(skip)]
    bar: Option<Bar>,
}

impl Size {
    fn of(what: &'static str, text: &str, bar: Option<Bar>) -> Result<Self> {
        Ok(Self { what, bytes: text.len(), gzipped: gzip(text)?.len(), bar })
    }
}

/// Bytes of views and of what they refer to, and the requests of one.
#[derive(Debug)]
pub struct Sizes {
    sizes: Vec<Size>,
    cold: usize,
    warm: usize,
}

#[derive(Serialize)]
struct JsonRecord<'a, T> {
    workload: &'a str,
    #[serde(flatten)]
    what: &'a T,
}

#[derive(Serialize)]
struct Requests {
    cold: usize,
    warm: usize,
}

/// Of a host with a long history.
pub async fn measure(scene: &Scene) -> Result<Sizes> {
    let base = scene.host.api.base();
    hold(base).await?;
    let client = client()?;
    let overview = load(&client, &format!("{base}/ui")).await?.text;
    let mut sizes = vec![Size::of("overview", &overview, None)?];
    for (what, path) in [("dead letters, 50 rows", "/ui/dead-letters"), ("messages, 50 rows", "/ui/messages")] {
        let list = load(&client, &format!("{base}{path}")).await?.text;
        let rows = list.matches(ROW).count();
        ensure!(rows == ROWS, "{path} has {rows} rows: what is measured is a list of {ROWS}");
        sizes.push(Size::of(what, &list, Some(LIST))?);
    }
    // The view itself.
    let (mut cold, mut warm) = (1, 1);
    for one in referred(&overview) {
        if one.is_icon {
            continue;
        }
        let loaded = load(&client, &format!("{base}{}", one.address)).await?;
        cold += 1;
        warm += usize::from(!loaded.is_immutable);
        let (what, bar) = match one.address.rsplit_once('.') {
            Some((_, "css")) => ("style sheet", STYLE),
            Some((_, "js")) => ("script", SCRIPT),
            _ => bail!("the overview refers to {}, which has no bar", one.address),
        };
        sizes.push(Size::of(what, &loaded.text, Some(bar))?);
    }
    Ok(Sizes { sizes, cold, warm })
}

fn gzip(text: &str) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    encoder.write_all(text.as_bytes()).context("compressing a view")?;
    encoder.finish().context("compressing a view")
}

impl Sizes {
    /// A JSON line for each size, and one for the requests.
    pub fn lines(&self, workload: &str) -> Result<Vec<String>> {
        let line = |size: &Size| serde_json::to_string(&JsonRecord { workload, what: size }).context("a JSON line");
        let mut lines: Vec<String> = self.sizes.iter().map(line).collect::<Result<_>>()?;
        let requests = Requests { cold: self.cold, warm: self.warm };
        lines.push(serde_json::to_string(&JsonRecord { workload, what: &requests }).context("a JSON line")?);
        Ok(lines)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = table(["bytes of", "plain", "gzipped", "bar", ""]);
        for Size { what, bytes: plain, gzipped, bar } in &self.sizes {
            let [bar, verdict] = bar.map_or_else(Default::default, |bar| bar.cells(Some(*gzipped as f64)));
            bytes.add_row([(*what).to_owned(), plain.to_string(), gzipped.to_string(), bar, verdict]);
        }
        writeln!(f, "{bytes}")?;
        let mut requests = table(["requests beside icon and event source", "number", "bar", ""]);
        let counts = [("cold", self.cold), ("warm", self.warm)];
        for ((what, count), bar) in counts.into_iter().zip(REQUESTS) {
            let [bar, verdict] = bar.cells(Some(count as f64));
            requests.add_row([what.to_owned(), count.to_string(), bar, verdict]);
        }
        writeln!(f, "{requests}")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn what_is_counted_is_the_whole_text_compressed() {
        let text = "<tr tabindex=\"-1\"><td>bus:orders.placed</td></tr>".repeat(ROWS);
        let compressed = gzip(&text).unwrap();
        let mut back = String::new();
        GzDecoder::new(compressed.as_slice()).read_to_string(&mut back).unwrap();
        assert_eq!(back, text);
        let size = Size::of("a list", &text, Some(LIST)).unwrap();
        assert_eq!((size.bytes, size.gzipped), (text.len(), compressed.len()));
    }

    #[test]
    fn sizes_stand_beside_their_bars() {
        let size = |what, gzipped, bar| Size { what, bytes: 30_000, gzipped, bar };
        let sizes = vec![size("overview", 13_000, None), size("script", 4_001, Some(SCRIPT))];
        let sizes = Sizes { sizes, cold: 3, warm: 2 };
        let shown = sizes.to_string();
        for (what, verdict) in [("script", "short"), ("cold", "reached"), ("warm", "short")] {
            let line = shown.lines().find(|line| line.contains(what)).unwrap();
            assert!(line.contains(verdict), "{line}");
        }
        assert_eq!(sizes.lines("page size").unwrap().len(), 3);
    }
}
