//! `waybill token ...`.

mod create;
mod list;
mod revoke;

use clap::Subcommand;

use super::Context;
use crate::args::Global;
use crate::exit::CliError;
use crate::term::Term;

/// Tokens that callers show.
#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a token and write it to stdout, once
    Create(create::Create),
    /// All tokens, configured ones too, but for the tokens themselves
    List(list::List),
    /// Take tokens away: they let nobody in from then on
    Revoke(revoke::Revoke),
}

/// Runs one of them.
pub(super) async fn run(command: &Token, global: &Global, term: &mut Term) -> Result<(), CliError> {
    match command {
        Token::Create(args) => create::run(args, global, term).await,
        Token::List(args) => list::run(args, &mut Context::new(global, term)?).await,
        Token::Revoke(args) => revoke::run(args, &mut Context::new(global, term)?).await,
    }
}
