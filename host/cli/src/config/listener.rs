//! Where a host listens, for whoever asks one that runs already.

use waybill_core::document::Table;

use super::load::{Inputs, fixed, named_file, tables, text};
use super::model::ServerSettings;
use super::problem::ConfigError;
use super::reader::Reader;
use super::sections;

/// The listener of a configuration that may have been made wrong since its host started. What is wrong elsewhere doesn't count; where
/// this can't be read, the second value says why, and the first goes by the environment and the defaults.
pub fn listener(inputs: &Inputs) -> (ServerSettings, Option<ConfigError>) {
    let file = named_file(inputs);
    let (root, unread) = match text(inputs).and_then(|text| tables(&text, &file)) {
        Ok(root) => (root, None),
        Err(error) => (Table::default(), Some(error)),
    };
    let mut reader = Reader::new(&file, &inputs.env, &inputs.flags);
    let (server, _) = sections::server(fixed(&mut reader, &root, "server"), &file);
    let wrong = Some(reader.problems).filter(|problems| !problems.is_empty()).map(ConfigError);
    (server, unread.or(wrong))
}
