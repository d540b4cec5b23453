//! Flags of acts that destroy or repeat.

use clap::Args;

/// How a bulk act is done.
#[derive(Clone, Debug, Args)]
pub struct Bulk {
    /// Only count, and show a sample
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
    /// Most acts a second [default: 100]
    #[arg(long, value_name = "N")]
    pub rate: Option<u32>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Start it and don't wait for its end
    #[arg(long)]
    pub detach: bool,
}
