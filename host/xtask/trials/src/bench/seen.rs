//! The seen set with a hundred million ids in it: messages of a JetStream stream at 10,000 a second, by the form of their ids.
//!
//! What is in the set is written by `host/store/examples/seen_fill.rs`, not sent. A few of a thousand messages repeat one of those ids
//! and have to be taken for duplicates; all others are handled, by a component that does nothing. Times are from when the stream took a
//! message until its acknowledgement passes by. Ids that tell nothing are measured a second time on the same data, with filters for a
//! quarter of them: the consumer slows down then, and `waybill inbox stats` has to say so.

use std::convert::Infallible;
use std::fmt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use comfy_table::{CellAlignment, Table, presets};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{interval, sleep, timeout};
use waybill_testkit::load::{Filled, IDS_A_MS, SeenForm, seen_payload, stamp};
use waybill_testkit::nats;
use waybill_testkit::outage::DESTINATION;

use super::endurance::size;
use super::figure::{Figure, Side};
use super::host::{Measured, data};
use super::inbound::{self, CONSUMER, DURABLE, SOURCE, STREAM};
use super::{Bench, all_arrived};

/// Example of the store that fills a data directory.
pub const EXAMPLE: &str = "seen_fill";
const MILLION: u64 = 1_000_000;
const TICK: Duration = Duration::from_millis(1);
/// One of so many messages repeats an id that was there before.
const REPEAT_EVERY: u64 = 200;
/// From one repeated id to the next: a prime, so that they are spread over all of them and none comes twice.
const REPEAT_STRIDE: u64 = 1_000_003;
/// Messages without acknowledgement past which the sender waits; the stream keeps twice as many.
const BACKLOG_MAX: u64 = 1_000_000;
/// The stream's own search for repeats, in nanoseconds: hardly any, for it isn't what is measured.
const STREAM_WINDOW_NS: u64 = 1_000_000_000;
/// Bits of a filter for each id, as the store has them.
const FILTER_BITS: u64 = 10;
/// Where the consumer is past its limit, one of so many ids has a filter.
const FILTERED_PART: u64 = 4;
/// There it gets this part of the time, and at least so many seconds.
const PAST_PART: u64 = 10;
const PAST_SECONDS_LEAST: u64 = 10;
/// Reads a look-up from which on filters don't do their work.
const READS_MANY: f64 = 0.25;
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// An owner tells at its next turn what it counted, at most once in this time.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// A form by its name on the command line.
pub fn form(name: &str) -> Result<SeenForm, String> {
    let names = || SeenForm::ALL.map(SeenForm::name).join(", ");
    SeenForm::by_name(name).ok_or_else(|| format!("one of {}", names()))
}

/// What was measured of one host.
#[derive(Debug, Serialize)]
struct Look {
    ids: &'static str,
    past_limit: bool,
    /// In the set before.
    filled: u64,
    /// On disk for each of them.
    bytes_an_id: f64,
    #[serde(flatten)]
    figure: Figure,
    /// All but one in a hundred of the second half, milliseconds: filters are made at the first questions.
    late_p99_ms: Option<f64>,
    /// Messages that came again, and were known.
    repeats: u64,
    /// Reads of the store for one look-up, as `waybill inbox stats` tells.
    reads: f64,
}

pub struct SeenLooks(Vec<Look>);

/// Forms (all, if none is named), millions of ids in the set, seconds of load.
pub async fn run(bench: &Bench, forms: &[SeenForm], millions: u64, seconds: u64) -> Result<SeenLooks> {
    let forms = if forms.is_empty() { &SeenForm::ALL } else { forms };
    let (count, messages) = (millions * MILLION, seconds * 1_000 * IDS_A_MS);
    let mut looks = Vec::new();
    for form in forms.iter().copied() {
        let folder = bench.folder()?;
        let filled = fill(bench, &folder, form, count).await?;
        let bytes_an_id = size(&data(&folder))? * 1_048_576.0 / count as f64;
        // Twice what they need: some are of tables that are merged meanwhile.
        let filters = filters_for(2 * (count + messages));
        let load = Load { filled, from: count, messages, filters, past_limit: false, bytes_an_id };
        let (look, folder) = load.measure(bench, folder).await?;
        looks.push(look);
        if form == SeenForm::Random {
            let seconds = (seconds / PAST_PART).max(PAST_SECONDS_LEAST);
            let load = Load {
                from: count + messages,
                messages: seconds * 1_000 * IDS_A_MS,
                filters: filters_for(count / FILTERED_PART),
                past_limit: true,
                ..load
            };
            looks.push(load.measure(bench, folder).await?.0);
        }
    }
    Ok(SeenLooks(looks))
}

/// KiB of filters for so many ids.
fn filters_for(ids: u64) -> u64 {
    (ids * FILTER_BITS / 8 / 1_024).max(1)
}

/// Makes a data directory with so many ids in it.
async fn fill(bench: &Bench, folder: &TempDir, form: SeenForm, count: u64) -> Result<Filled> {
    let filled = Filled { form, count, end: now()? };
    let began = Instant::now();
    let ended = Command::new(&bench.seen_fill)
        .arg(data(folder))
        .args([CONSUMER, SOURCE, form.name(), &count.to_string(), &filled.end.to_string()])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("running {}", bench.seen_fill.display()))?;
    ensure!(ended.success(), "{EXAMPLE} ended with {ended}");
    eprintln!("  {count} {} ids in {:.0} s", form.name(), began.elapsed().as_secs_f64());
    Ok(filled)
}

/// Milliseconds since 1970.
fn now() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// What one host gets.
struct Load {
    filled: Filled,
    /// Number of the first id that is new.
    from: u64,
    messages: u64,
    /// KiB that its filters may take.
    filters: u64,
    past_limit: bool,
    bytes_an_id: f64,
}

impl Load {
    fn repeats(&self) -> u64 {
        self.messages.div_ceil(REPEAT_EVERY)
    }

    /// The id of a message by its place in the load, and when it was made.
    fn id(&self, place: u64, now: u64) -> (String, u64) {
        if place.is_multiple_of(REPEAT_EVERY) {
            let number = (place / REPEAT_EVERY) * REPEAT_STRIDE % self.filled.count;
            return (self.filled.id(number), self.filled.at(number));
        }
        (self.filled.form.id(self.from + place, now), now)
    }

    fn config(&self, bench: &Bench, server: &nats::Server) -> String {
        let source = if self.filled.form.is_stamped() { "id_time = \"occurred_at\"" } else { "" };
        let config = inbound::config(server, source, &inbound::idle(bench));
        if self.filled.form == SeenForm::Random {
            return format!("{config}[inbox]\ndedup_memory = \"{}KiB\"\n", self.filters);
        }
        config
    }

    /// Starts a host on the data and gives it the load; the data is given back.
    async fn measure(&self, bench: &Bench, folder: TempDir) -> Result<(Look, TempDir)> {
        let server = nats::Server::start().await.context("starting nats-server: is it installed?")?;
        let mut client = server.client().await?;
        let bounds = json!({ "max_msgs": 2 * BACKLOG_MAX, "duplicate_window": STREAM_WINDOW_NS });
        client.create_stream(STREAM, &[DESTINATION], &bounds).await?;
        let mut beside = server.client().await?;
        beside.subscribe(&format!("$JS.ACK.{STREAM}.{DURABLE}.>")).await?;
        let mut host = Measured::start_in(bench, folder, &self.config(bench, &server)).await?;
        let acknowledged = Acknowledged::default();
        host.mark()?;
        let began = Instant::now();
        let loading = async {
            self.publish(&mut client, &acknowledged).await?;
            acknowledged.reach(self.messages).await
        };
        tokio::select! {
            loaded = loading => loaded?,
            failed = acknowledged.read_along(&mut beside) => match failed? {},
        }
        let figure = Figure::of_rate(self.messages, began.elapsed());
        let times = acknowledged.times.into_inner();
        let late = times.get(times.len() / 2..).unwrap_or_default().to_vec();
        let figure = host.used(figure.with_times(times))?;
        let nothing_left = async {
            while inbound::left(&mut client).await? > 0 {
                sleep(POLL).await;
            }
            Ok::<(), anyhow::Error>(())
        };
        timeout(PATIENCE, nothing_left)
            .await
            .context("messages that were acknowledged are still in the consumer")??;
        sleep(TOLD_AFTER).await;
        // This question is a turn.
        let reads = reads(&host).await?;
        sleep(POLL).await;
        self.check_counts(&host).await?;
        let look = Look {
            ids: self.filled.form.name(),
            past_limit: self.past_limit,
            filled: self.filled.count,
            bytes_an_id: self.bytes_an_id,
            figure,
            late_p99_ms: Figure::default().with_times(late).p99_ms,
            repeats: self.repeats(),
            reads,
        };
        eprintln!("  {}{}: {}", look.ids, if look.past_limit { ", past its limit" } else { "" }, look.figure);
        let told = if look.reads < READS_MANY { "says nothing of a limit" } else { "says that it is past its limit" };
        ensure!(
            (look.reads >= READS_MANY) == self.past_limit,
            "the consumer {told}: {:.2} reads a look-up",
            look.reads
        );
        Ok((look, host.ended().await?))
    }

    /// Sends at the rate, whatever became of the messages before, unless too many of them wait.
    async fn publish(&self, client: &mut nats::Client, acknowledged: &Acknowledged) -> Result<()> {
        let (payload, is_stamped) = (seen_payload(), self.filled.form.is_stamped());
        let mut ticks = interval(TICK);
        for place in 0..self.messages {
            if place.is_multiple_of(IDS_A_MS) {
                client.sync().await?;
                acknowledged.reach(place.saturating_sub(BACKLOG_MAX)).await?;
                ticks.tick().await;
            }
            let (id, at) = self.id(place, now()?);
            let made = is_stamped.then(|| stamp(at));
            let mut headers = vec![("Nats-Msg-Id", id.as_str()), ("content-type", "application/json")];
            headers.extend(made.iter().map(|made| ("x-occurred-at", made.as_str())));
            client.push(DESTINATION, &headers, payload.as_bytes()).await?;
        }
        Ok(client.sync().await?)
    }

    /// Each new id was handled, and each repeated one was known.
    async fn check_counts(&self, host: &Measured) -> Result<()> {
        let text = match host.api.get("/metrics", &[]).await {
            Ok(reply) => reply.body.as_str().map(str::to_owned).context("metrics that are no text")?,
            Err(error) => bail!("the metrics weren't answered: {error:?}"),
        };
        let count = |name: &str, label: &str| {
            let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
            lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>() as u64
        };
        let handled = count("tx_inbox_processed_total", "end=\"processed\"");
        let new = self.messages - self.repeats();
        ensure!(handled == new, "{handled} messages were handled, {new} had new ids");
        let known = count("tx_inbox_duplicates_total", "");
        ensure!(known >= self.repeats(), "{known} messages were known, {} had ids of before", self.repeats());
        Ok(())
    }
}

/// Reads of the store for one look-up, as the host tells people.
async fn reads(host: &Measured) -> Result<f64> {
    let stats = match host.api.get("/v1/inbox/stats", &[]).await {
        Ok(reply) => reply.body,
        Err(error) => bail!("the inbox's figures weren't answered: {error:?}"),
    };
    let all = stats.get("consumers").and_then(Value::as_array);
    let own = all.into_iter().flatten().find(|one| one.get("consumer").and_then(Value::as_str) == Some(CONSUMER));
    let percent = own.and_then(|own| own.get("seen_reads_percent")?.as_f64());
    Ok(percent.with_context(|| format!("no reads of {CONSUMER} in {stats}"))? / 100.0)
}

/// Acknowledgements that passed by: how long each came after the stream took its message.
#[derive(Default)]
struct Acknowledged {
    count: AtomicU64,
    times: Mutex<Vec<Duration>>,
}

impl Acknowledged {
    /// Ends when something is wrong only.
    async fn read_along(&self, client: &mut nats::Client) -> Result<Infallible> {
        loop {
            let (subject, said) = client.next().await?;
            // Others extend the time of a message that waits.
            if said.starts_with(b"+ACK") {
                // ...nanoseconds since 1970.pending
                let taken = subject.rsplit('.').nth(1).and_then(|nanos| nanos.parse::<u64>().ok());
                let taken = Duration::from_nanos(taken.with_context(|| format!("no time in {subject}"))?);
                let age = SystemTime::now().duration_since(UNIX_EPOCH)?.saturating_sub(taken);
                self.times.lock().push(age);
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until there are so many.
    async fn reach(&self, wanted: u64) -> Result<()> {
        let (mut seen, mut moved) = (u64::MAX, Instant::now());
        loop {
            let count = self.count.load(Ordering::Relaxed);
            if count >= wanted {
                return Ok(());
            }
            if count != seen {
                (seen, moved) = (count, Instant::now());
            }
            all_arrived(moved.elapsed() < PATIENCE, count, wanted)?;
            sleep(POLL).await;
        }
    }
}

impl SeenLooks {
    /// A JSON line for each host.
    pub fn lines(&self) -> Result<Vec<String>> {
        #[derive(Serialize)]
        struct JsonRecord<'a> {
            workload: &'static str,
            side: Side,
            #[serde(flatten)]
            look: &'a Look,
        }
        let line = |look| serde_json::to_string(&JsonRecord { workload: "seen", side: Side::Waybill, look });
        self.0.iter().map(|look| Ok(line(look)?)).collect()
    }
}

impl fmt::Display for SeenLooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header([
            "ids",
            "in the set",
            "bytes an id",
            "ready ms",
            "msg/s",
            "CPU s / 10k",
            "p50 ms",
            "p99 ms",
            "p99 of the 2nd half",
            "peak MiB",
            "reads a look-up",
        ]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let cell =
            |value: Option<f64>, places: usize| value.map(|value| format!("{value:.places$}")).unwrap_or_default();
        for look in &self.0 {
            let figure = &look.figure;
            table.add_row([
                format!("{}{}", look.ids, if look.past_limit { ", past its limit" } else { "" }),
                look.filled.to_string(),
                cell(Some(look.bytes_an_id), 1),
                cell(figure.ready_ms, 0),
                cell(figure.rate, 0),
                cell(figure.cpu_s_per_10k, 3),
                cell(figure.p50_ms, 2),
                cell(figure.p99_ms, 2),
                cell(look.late_p99_ms, 2),
                cell(figure.resident_peak_mib, 0),
                cell(Some(look.reads), 2),
            ]);
        }
        writeln!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn repeats_are_of_the_set_and_all_others_are_new() {
        let filled = Filled { form: SeenForm::Counter, count: MILLION, end: 0 };
        let load = Load { filled, from: MILLION, messages: 100_001, filters: 1, past_limit: false, bytes_an_id: 0.0 };
        let ids: HashSet<String> = (0..load.messages).map(|place| load.id(place, 0).0).collect();
        assert_eq!(ids.len() as u64, load.messages);
        let before: HashSet<String> = (0..filled.count).map(|number| filled.id(number)).collect();
        assert_eq!(ids.intersection(&before).count() as u64, load.repeats());
    }
}
