//! `waybill plugin ...`. What authors do without a host is in [`crate::author`].

mod call;
mod check;
mod dev;
mod list;
mod load;
mod logs;
mod reload;
mod rollback;
pub(super) mod served;
mod show;

use clap::Subcommand;

use super::Context;
use crate::args::Global;
use crate::author::sandbox::Cache;
use crate::author::{self, build, inspect, new, signing, test};
use crate::config::cache_folder;
use crate::data;
use crate::exit::CliError;
use crate::term::Term;

/// Plugins.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  waybill plugin new --world transport --lang rust my-broker\n  waybill plugin test\n  waybill plugin list\n  waybill plugin show orders\n  waybill plugin reload orders\n  waybill plugin inspect http\n  waybill plugin inspect ./my-transport.wasm -o json"
)]
pub enum Plugin {
    /// Make a project that builds and passes its tests
    New(new::New),
    /// Build a project's component, with its manifest inside
    Build(build::Build),
    /// Does a plugin keep the contract: run the conformance suite on it
    Test(test::Test),
    /// Would this host load it, and if not, why
    Check(check::CheckArgs),
    /// Build and reload into a running host on every save
    Dev(author::dev::Dev),
    /// The plugins of a host, with generation, signature and state
    List(list::List),
    /// One plugin of a host: what serves, and how it does beside the one before
    Show(show::Show),
    /// Hand a component over to a host: tried, then live
    Load(load::Load),
    /// Have a host read a plugin from its source again
    Reload(reload::Reload),
    /// What a plugin wrote into its log, and what the host said of it
    Logs(logs::Logs),
    /// Go back to the generation before
    Rollback(rollback::Rollback),
    /// Is a component the one that was meant, and who signed it
    Verify(signing::verify::Verify),
    /// Sign a component
    Sign(signing::sign::Sign),
    /// Make a key to sign with
    Keygen(signing::keygen::Keygen),
    /// What a plugin is and asks for: manifest, world, grants it wants, digest
    Inspect(inspect::Inspect),
    /// Run one step of a participant by hand, in the real sandbox
    Call(Box<call::Call>),
}

/// Runs one of them.
pub(super) async fn run(command: &Plugin, global: &Global, term: &mut Term) -> Result<(), CliError> {
    let format = global.format();
    match command {
        Plugin::New(args) => new::run(args, format, term),
        Plugin::Build(args) => build::run(args, format, term),
        Plugin::Test(args) => test::run(args, cache(), format, term).await,
        Plugin::Check(args) => check::run(args, format, term).await,
        Plugin::Dev(args) => dev::run(args, global, term).await,
        Plugin::List(args) => list::run(args, global, term).await,
        Plugin::Show(args) => show::run(args, &mut Context::new(global, term)?).await,
        Plugin::Load(args) => load::run(args, &mut Context::new(global, term)?).await,
        Plugin::Reload(args) => reload::run(args, &mut Context::new(global, term)?).await,
        Plugin::Logs(args) => logs::run(args, &mut Context::new(global, term)?).await,
        Plugin::Rollback(args) => rollback::run(args, &mut Context::new(global, term)?).await,
        Plugin::Verify(args) => signing::verify::run(args, format, term),
        Plugin::Sign(args) => signing::sign::run(args, format, term),
        Plugin::Keygen(args) => signing::keygen::run(args, format, term),
        Plugin::Inspect(args) => inspect::run(args, format, term),
        Plugin::Call(args) => call::run(args, global, term).await,
    }
}

/// The host's own cache, as far as that is known without a configuration.
fn cache() -> Cache {
    Cache { folder: cache_folder(), seal_key: data::platform_seal_key(), ..Cache::default() }
}
