//! What comes in over HTTP or from a plugin's author: bodies, tokens, statements, components.

use waybill_api::{idempotency, workers};
use waybill_core::port::transact::Statement;
use waybill_server::approval::ApprovalLinks;
use waybill_server::json::{decode, post, requests, saga_requests};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    Target::of_text("messages", messages),
    Target::of_text("bodies", bodies),
    Target::of_text("approval", approval),
    Target::of_text("statement", statement),
    Target { name: "component", read: component, seeds: components },
];

fn messages(bytes: &[u8]) {
    let Ok(text) = decode::utf8(bytes) else { return };
    let _ = post::json(text);
    let _ = post::lines(text);
}

fn bodies(bytes: &[u8]) {
    let Ok(text) = decode::utf8(bytes) else { return };
    let _ = decode::value::<requests::TransactionIn>(text);
    let _ = decode::value::<requests::StartOperation>(text);
    let _ = decode::value::<workers::ClaimBody>(text);
    let _ = decode::value::<workers::SettleBody>(text);
    let _ = decode::value::<workers::CheckDedup>(text);
    let _ = decode::value::<saga_requests::AnyJson>(text);
    let _ = decode::value::<idempotency::BeginKey>(text);
    let _ = decode::value::<idempotency::FinishKey>(text);
}

/// Nobody makes a token without the key.
fn approval(bytes: &[u8]) {
    let Some(token) = std::str::from_utf8(bytes).ok() else { return };
    let approvals = ApprovalLinks::new(&[7; 32], "http://127.0.0.1:7070").expect("a key");
    assert!(approvals.read(token).is_err(), "a forged token was taken");
}

fn statement(bytes: &[u8]) {
    let Ok(query) = std::str::from_utf8(bytes) else { return };
    let statement = Statement { query: query.to_owned(), bindings: serde_json::Map::new() };
    if let Ok(checked) = waybill_store::check_statement(&statement, 1, &Default::default()) {
        let _ = waybill_store::Held::default().fits(&statement, 1, &checked.plan);
    }
}

fn component(bytes: &[u8]) {
    let _ = waybill_sandbox::inspect(bytes);
    let _ = waybill_sandbox::Manifest::parse(bytes);
}

/// The smallest component and the smallest module.
fn components() -> Vec<Vec<u8>> {
    vec![b"\0asm\x0d\0\x01\0".to_vec(), b"\0asm\x01\0\0\0".to_vec()]
}
