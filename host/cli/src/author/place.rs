//! Which plugin of a running host is meant, by flags.

use clap::Args;

/// Whose plugin a component becomes.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct PlaceArgs {
    /// Transport whose plugin it becomes
    #[arg(long, value_name = "NAME")]
    pub transport: Option<String>,
    /// Participant whose plugin it becomes
    #[arg(long, value_name = "NAME")]
    pub participant: Option<String>,
    /// Consumer whose handler it becomes
    #[arg(long, value_name = "CONSUMER")]
    pub handler: Option<String>,
    /// It becomes the retry policy
    #[arg(long)]
    pub backoff: bool,
}

impl PlaceArgs {
    /// What the host knows it by; none = no flag was given.
    pub fn name(&self) -> Option<String> {
        let Self { transport, participant, handler, backoff } = self;
        let participant = participant.as_ref().map(|name| format!("participant.{name}"));
        let handler = handler.as_ref().map(|name| format!("handler.{name}"));
        transport.clone().or(participant).or(handler).or_else(|| backoff.then(|| "outbox.backoff".to_owned()))
    }
}

/// Where the configuration names the plugin of what the host knows by a name: its section, and the key that names a file of the
/// plugins folder there.
pub fn in_configuration(name: &str) -> (String, &'static str) {
    const PLUGIN: &str = "plugin = \"NAME\"";
    match name.split_once('.') {
        Some(("handler", consumer)) => (format!("[consumer.{consumer}]"), "handler = \"fn:NAME\""),
        Some(_) => (format!("[{name}]"), PLUGIN),
        None => (format!("[transport.{name}]"), PLUGIN),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Given {
        #[command(flatten)]
        place: PlaceArgs,
    }

    fn name(flags: &[&str]) -> Result<Option<String>, clap::Error> {
        Given::try_parse_from(["given"].iter().chain(flags)).map(|given| given.place.name())
    }

    #[test]
    fn one_flag_leads_to_the_name_that_the_host_knows() {
        let cases: [(&[&str], Option<&str>); 5] = [
            (&["--transport", "orders"], Some("orders")),
            (&["--participant", "shop"], Some("participant.shop")),
            (&["--handler", "ship"], Some("handler.ship")),
            (&["--backoff"], Some("outbox.backoff")),
            (&[], None),
        ];
        for (flags, known) in cases {
            assert_eq!(name(flags).unwrap().as_deref(), known);
        }
        assert!(name(&["--transport", "orders", "--backoff"]).is_err(), "one at a time");
    }

    #[test]
    fn each_name_leads_to_its_section() {
        let section = |name: &str| in_configuration(name).0;
        let names = ["orders", "participant.shop", "handler.ship", "outbox.backoff"];
        assert_eq!(
            names.map(section),
            ["[transport.orders]", "[participant.shop]", "[consumer.ship]", "[outbox.backoff]"]
        );
        assert_eq!(in_configuration("handler.ship").1, "handler = \"fn:NAME\"");
    }
}
