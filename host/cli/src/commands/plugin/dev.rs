//! `waybill plugin dev` against a running host.

use crate::args::Global;
use crate::author::dev::{self, Dev, Place};
use crate::client::Client;
use crate::exit::CliError;
use crate::term::Term;

/// What a host knows by a name.
struct Running {
    client: Client,
    name: String,
}

impl Place for Running {
    async fn load(&self, component: Vec<u8>) -> Result<(), CliError> {
        let path = ["v1", "plugins", &self.name, "component"];
        // Whoever works on it wants this one, also after a rollback, and again.
        self.client.put_component(&path, &[("force", "true")], &[], component).await?;
        Ok(())
    }
}

/// Works until it is ended.
pub(super) async fn run(args: &Dev, global: &Global, term: &mut Term) -> Result<(), CliError> {
    let find = |name: &str, term: &mut Term| -> Result<Running, CliError> {
        Ok(Running { client: Client::new(global, term)?, name: name.to_owned() })
    };
    dev::run(args, super::cache(), find, term).await
}
