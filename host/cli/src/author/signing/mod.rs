//! Who vouches for a component: `waybill plugin verify`, `sign` and `keygen`.

pub mod keygen;
pub mod sign;
pub mod verify;

use std::path::Path;

use waybill_sandbox::{Fetched, VerifyError};

use super::sandbox;
use crate::exit::{CliError, Exit};

fn refused(path: &Path, error: &VerifyError) -> CliError {
    let exit = if matches!(error, VerifyError::Key { .. }) { Exit::Usage } else { Exit::Failed };
    CliError::Host { code: error.code(), what: format!("{}: {error}", path.display()), exit }
}

fn fetch(path: &Path) -> Result<Fetched, CliError> {
    Fetched::read(path).map_err(|error| sandbox::failed(&error))
}
