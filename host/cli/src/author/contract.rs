//! The contract as this program has it inside, resolved: both packages.

use wit_parser::{Resolve, SourceMap};

use super::new;

/// Its interfaces, types and worlds.
pub(super) fn resolved() -> Result<Resolve, String> {
    let (mut plugin, mut inbound) = (SourceMap::default(), SourceMap::default());
    for (path, bytes) in new::contract() {
        let text = String::from_utf8_lossy(bytes);
        match path.split_once('/') {
            None => plugin.push_str(path, text),
            Some(("inbound", _)) => inbound.push_str(path, text),
            // The frozen copies.
            Some(_) => {}
        }
    }
    let mut contract = Resolve::default();
    for sources in [plugin, inbound] {
        let group = sources.parse().map_err(|(_, error)| error.to_string())?;
        contract.push_group(group).map_err(|error| error.to_string())?;
    }
    Ok(contract)
}
