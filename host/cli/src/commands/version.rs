//! `waybill version`.

use serde_json::json;

use crate::exit::CliError;
use crate::output::{self, Format};
use crate::term::Term;

pub(super) fn run(format: Format, term: &mut Term) -> Result<(), CliError> {
    let contract = waybill_sandbox::CONTRACT_VERSION;
    let inbound = waybill_sandbox::INBOUND_CONTRACT_VERSION;
    let bundled: Vec<&str> = waybill_bundled::all().iter().map(|plugin| plugin.name).collect();
    let version = env!("CARGO_PKG_VERSION");
    let all = json!({
        "version": version, "contract": contract, "inbound_contract": inbound, "bundled": bundled, "target": target()
    });
    let rows = vec![
        ("waybill".to_owned(), version.to_owned()),
        ("plugin contract".to_owned(), format!("waybill:plugin@{contract}, waybill:inbound@{inbound}")),
        ("bundled plugins".to_owned(), bundled.join(", ")),
        ("platform".to_owned(), target()),
    ];
    output::one(term, format, &all.to_string(), version, rows)
}

fn target() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}
