//! Puts line breaks and what moves a terminal's cursor into everything that it may write: stdout, log, receipt, faults.
use guests::{Fault, Outcome};

/// What follows looks like an entry of the host.
const FORGED: &str = "\r\n2026-11-22T00:00:00Z  INFO forged: \u{1b}[2K\u{202e}";

guests::on_send!(_config, _call, batch => {
    println!("a{FORGED}stdout");
    eprintln!("a{FORGED}stderr");
    waybill_plugin::error!([("field", format!("a{FORGED}field"))], "a{FORGED}message");
    Ok((0..batch.len())
        .map(|index| match index {
            0 => guests::report(format!("a{FORGED}receipt")),
            1 => Outcome::Permanent(Fault::new("FIXTURE.FORGED", format!("a{FORGED}reason")).with_attribute("a\rb", FORGED)),
            _ => Outcome::Permanent(Fault::new(format!("A{FORGED}"), "a code of two lines")),
        })
        .collect())
});
