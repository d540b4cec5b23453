//! Random definitions, read by the real reader.

use std::sync::Arc;

use waybill_core::port::saga::DefinitionFormat;
use waybill_core::saga::definition::{Definition, DefinitionSet, parse};

use crate::model::rng::Rng;

/// A few definitions; the last ones may use the first as sub-sagas.
pub(super) fn make(rng: &mut Rng) -> Vec<Arc<DefinitionSet>> {
    let mut made: Vec<Arc<Definition>> = Vec::new();
    for number in 0..6 {
        let text = document(rng, number, made.len().min(3));
        let parsed = parse(&text, DefinitionFormat::Toml).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        made.push(Arc::new(parsed.definition));
    }
    let lookup = |name: &str, _: Option<u32>| made.iter().find(|definition| *definition.name == *name).cloned();
    made.iter().map(|root| Arc::new(DefinitionSet::resolve(Arc::clone(root), None, lookup).unwrap())).collect()
}

fn document(rng: &mut Rng, number: usize, children: usize) -> String {
    let mut text = format!("name = \"d{number}\"\n");
    if rng.percent(15) {
        text.push_str(&format!("deadline_ms = {}\n", 2_000 + rng.below(20_000)));
    }
    let mut tag = 0;
    let mut tagged = false;
    for step in 0..1 + rng.below(12) {
        text.push_str(&format!("[[steps]]\nname = \"s{step}\"\n"));
        let kind = rng.below(100);
        match kind {
            0..8 if children > 0 && number >= 3 => {
                text.push_str(&format!("action = \"saga:d{}\"\n", rng.below(children as u64)));
            }
            8..12 => text.push_str("action = \"wait:go\"\ntimeout_ms = 4000\n"),
            12..16 => text.push_str("action = \"wait:approval\"\ntimeout_ms = 4000\n"),
            16..28 => text.push_str("action = \"bus:work\"\ntimeout_ms = 1500\n"),
            _ => text.push_str("action = \"fn:p/do\"\ntimeout_ms = 1500\n"),
        }
        if kind >= 16 && rng.percent(85) {
            text.push_str(if rng.percent(20) {
                "compensation = \"bus:undo\"\n"
            } else {
                "compensation = \"fn:p/undo\"\n"
            });
        }
        if rng.percent(20) {
            text.push_str("idempotent = false\n");
        }
        if rng.percent(15) {
            text.push_str("input = { id = \"${ saga.id }\", n = \"${ input.n + 1 }\" }\n");
        }
        let attempts = 1 + rng.below(4);
        text.push_str(&format!(
            "retry = {{ max_attempts = {attempts}, base_ms = 100, cap_ms = 1000, jitter = 0.2 }}\n"
        ));
        if !tagged || rng.percent(50) {
            tag += 1;
            tagged = rng.percent(40);
        }
        if tagged {
            text.push_str(&format!("concurrency_tag = \"t{tag}\"\n"));
        }
    }
    text
}
