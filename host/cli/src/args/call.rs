//! `waybill plugin call`.

use clap::Args;

use super::serve::ConfigArgs;

/// Run one step by hand.
#[derive(Debug, Args)]
#[command(
    override_usage = "waybill plugin call [OPTIONS] fn:PARTICIPANT/STEP\n       waybill plugin call [OPTIONS] FILE.wasm STEP",
    after_help = "Examples:\n  \
        waybill plugin call fn:orders/reserve --input '{\"sku\":\"a-1\",\"count\":2}'\n  \
        waybill plugin call fn:orders/reserve --compensate --input @order.json --output-of '{\"hold\":\"h-7\"}'\n  \
        waybill plugin call ./orders.wasm reserve --input @order.json --allow https://stock.example -o json\n\n\
        It runs in this process, with the participant's grants and secrets, beside a running host and without its store: kv is \
        empty and forgotten. Messages and events of the answer are shown, not committed.\n\n\
        Exit codes: 0 done or pending, 1 the step failed, 2 usage or configuration, 3 no such participant or step, 6 blocked or not \
        open, 8 timed out."
)]
pub struct Call {
    /// fn:PARTICIPANT/STEP of the configuration (fn:STEP where one serves it), or the path of a .wasm
    #[arg(value_name = "ADDRESS|FILE")]
    pub target: String,
    /// The step, after a path
    pub step: Option<String>,
    /// Input of the step, as JSON or @FILE
    #[arg(long, value_name = "JSON|@FILE", default_value = "{}")]
    pub input: String,
    /// Undo the step instead
    #[arg(long)]
    pub compensate: bool,
    /// What doing it answered, as JSON or @FILE; without it the compensation is told that nobody knows
    #[arg(long, value_name = "JSON|@FILE", requires = "compensate")]
    pub output_of: Option<String>,
    /// Part of the context: saga-id, definition, definition-version, step, attempt, envelope-id, correlation-id, saga-deadline
    /// (RFC 3339), header.NAME; any other name is an attribute. May be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub context: Vec<String>,
    /// Whose saga it is
    #[arg(long, default_value = "default")]
    pub tenant: String,
    /// Configuration of the plugin, as JSON or @FILE; with a path only
    #[arg(long, value_name = "JSON|@FILE")]
    pub plugin_config: Option<String>,
    /// A peer it may reach, e.g. https://stock.example; with a path only. May be repeated
    #[arg(long, value_name = "PEER")]
    pub allow: Vec<String>,
    /// A secret it may read, e.g. key=env:STOCK_KEY; with a path only. May be repeated
    #[arg(long, value_name = "NAME=REFERENCE")]
    pub secret: Vec<String>,
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}
