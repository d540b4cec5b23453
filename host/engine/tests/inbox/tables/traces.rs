//! Spans of rows: one trace from the row to the receiver, and nothing of it where nobody records.

use std::sync::Arc;

use parking_lot::Mutex;
use waybill_core::annotation::Annotation;
use waybill_testkit::fake_table::FakeTable;
use waybill_testkit::fake_tracer::{EndedSpan, FakeTracer};
use waybill_testkit::fake_transport::{ack, permanent};

use super::Tables;
use crate::support::*;

const FIRST: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SECOND: &str = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01";

/// The trace contexts that a transport got, each with what its row says.
type Contexts = Arc<Mutex<Vec<(String, Option<String>)>>>;

impl Tables {
    fn insert_traced(&self, text: &str, context: &str) -> u64 {
        let attribute = ("traceparent".to_owned(), context.to_owned());
        self.database.insert_with(text, |row| row.attributes.push(attribute))
    }

    /// Has the transport take all rows but `refused`, and keep their contexts.
    fn contexts(&self) -> Contexts {
        let got = Contexts::default();
        let kept = Arc::clone(&got);
        self.world.bus.tell(move |delivery| {
            let context = delivery.message.annotation(Annotation::Traceparent).map(str::to_owned);
            kept.lock().push((String::from_utf8(delivery.payload.to_vec()).unwrap(), context));
            if delivery.payload.as_ref() == b"refused" { permanent("TEST.NEVER") } else { ack() }
        });
        got
    }

    fn start_traced(&self, tracer: &FakeTracer) -> Host {
        let tracer = tracer.clone();
        let table = FakeTable::new("orders", &self.database);
        self.launch_with("host-a", &table, |_| {}, |config| config.tracer = Some(Arc::new(tracer)))
    }
}

fn of(spans: &[EndedSpan], row: u64) -> &EndedSpan {
    let id = format!("outbox-{row}");
    let named = |span: &&EndedSpan| span.attributes.get("messaging.message.id") == Some(&id);
    spans.iter().find(named).unwrap_or_else(|| panic!("no span of {id} in {spans:#?}"))
}

#[tokio::test(start_paused = true)]
async fn a_row_has_a_trace_from_its_claim_to_its_receiver() {
    let (tables, tracer) = (Tables::new(), FakeTracer::recording());
    let got = tables.contexts();
    let (taken, refused) = (tables.insert_traced("taken", FIRST), tables.insert_traced("refused", SECOND));
    let host = tables.start_traced(&tracer);
    tables.until_published(&[taken]).await;
    tables.until_failed(refused).await;
    host.drain().await;
    let spans = tracer.ended();
    let receive = spans.iter().find(|span| span.name == "receive orders").unwrap();
    assert_eq!((receive.parent.as_deref(), receive.links.as_slice()), (Some(FIRST), &[SECOND.to_owned()][..]));
    assert_eq!(receive.attributes.get("messaging.batch.message_count").map(String::as_str), Some("2"));
    let (sent, failed) = (of(&spans, taken), of(&spans, refused));
    assert_eq!((sent.name.as_str(), sent.parent.as_deref()), ("send bus", Some(FIRST)));
    assert_eq!(sent.attributes.get("waybill.outcome").map(String::as_str), Some("delivered"));
    assert_eq!((failed.parent.as_deref(), failed.failed.as_deref()), (Some(SECOND), Some("TEST.NEVER")));
    assert_eq!(failed.attributes.get("waybill.outcome").map(String::as_str), Some("dead"));
    let call = spans.iter().find(|span| span.name == "call bus").unwrap();
    let sends = [sent.context.as_str(), failed.context.as_str()];
    assert!(call.parent.as_deref().is_some_and(|parent| sends.contains(&parent)), "{call:?}");
    let got = got.lock().clone();
    for (text, span) in [("taken", sent), ("refused", failed)] {
        assert!(got.contains(&(text.to_owned(), Some(span.context.clone()))), "{got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_s_trace_that_nobody_records_is_passed_on_as_it_came() {
    let (tables, tracer) = (Tables::new(), FakeTracer::sampling_none());
    let got = tables.contexts();
    let rows = [tables.insert_traced("traced", FIRST), tables.database.insert_with("plain", |_| {})];
    let host = tables.start_traced(&tracer);
    tables.until_published(&rows).await;
    host.drain().await;
    assert!(tracer.ended().is_empty());
    let mut got = got.lock().clone();
    got.sort();
    assert_eq!(got, [("plain".to_owned(), None), ("traced".to_owned(), Some(FIRST.to_owned()))]);
}
