//! `saga.definitions`: a folder whose files are stored as definitions at start and on reload.
//!
//! Files are read in the order of their names. One whose sub-saga isn't defined yet is tried again when others were, so the
//! order doesn't matter. A file that isn't right stops no other.

use std::path::{Path, PathBuf};

use waybill_api::sagas::SagaService;
use waybill_core::code::Code;
use waybill_core::port::saga::{Define, Defined, DefinitionFormat};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::limits::DEFINITION_BYTES_MAX;

/// Who stores them, for the record.
const ACTOR: &str = "configuration";
/// Most files of a folder: more are a sign that the wrong folder was named.
const FILES_MAX: usize = 1_000;

/// What came of one file.
#[derive(Debug)]
pub struct FromFile {
    pub file: PathBuf,
    /// What was stored, or why not.
    pub result: Result<Defined, NotDefined>,
}

/// Why a file's definition wasn't stored.
#[derive(Debug, thiserror::Error)]
pub enum NotDefined {
    /// The file, or the folder, can't be read.
    #[error("it can't be read: {0}")]
    Io(#[from] std::io::Error),
    /// It is more than is taken.
    #[error("it has {bytes} bytes, at most {DEFINITION_BYTES_MAX} are taken")]
    TooLarge { bytes: u64 },
    /// There are too many files.
    #[error("the folder has more than {FILES_MAX} definitions: is it the right one?")]
    TooMany,
    /// The definition was refused.
    #[error(transparent)]
    Refused(#[from] SagaError),
}

/// Stores all definitions of a folder. The answer has one entry a file, in the order of their names; one of the folder itself
/// when that can't be read.
pub async fn define_all(sagas: &dyn SagaService, folder: &Path) -> Vec<FromFile> {
    let files = match files(folder) {
        Ok(files) => files,
        Err(error) => return vec![FromFile { file: folder.to_owned(), result: Err(error) }],
    };
    let mut done = Vec::new();
    let mut waiting = Vec::new();
    for (file, format) in files {
        match read(&file) {
            Ok(text) => waiting
                .push((file, Define { text, format, dry_run: false, given: Vec::new(), actor: ACTOR.to_owned() })),
            Err(error) => done.push(FromFile { file, result: Err(error) }),
        }
    }
    // Every round stores at least one, or is the last.
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut refused = Vec::new();
        for (file, define) in waiting {
            match sagas.define(define.clone()).await {
                Ok(defined) => done.push(FromFile { file, result: Ok(defined) }),
                Err(error) => refused.push((file, define, error)),
            }
        }
        let stuck = refused.len() == before;
        waiting = Vec::new();
        for (file, define, error) in refused {
            match error {
                SagaError::Definition(_) | SagaError::NoDefinition { .. } if !stuck => waiting.push((file, define)),
                error => done.push(FromFile { file, result: Err(error.into()) }),
            }
        }
    }
    done.sort_by(|a, b| a.file.cmp(&b.file));
    done
}

/// Writes what came of it to the log.
pub fn log(results: &[FromFile]) {
    for FromFile { file, result } in results {
        let file = file.display();
        match result {
            Ok(defined) => {
                let (name, version) = (&defined.definition.name, defined.definition.version);
                tracing::info!(%file, %name, version, new = defined.created, "a saga's definition");
                for warning in &defined.warnings {
                    tracing::warn!(%file, %name, "{warning}");
                }
            }
            Err(error) => {
                let code = if let NotDefined::Refused(error) = error { error.code() } else { Code::CLI_IO };
                tracing::error!(%file, code = code.as_str(), "a saga's definition wasn't stored: {error}");
            }
        }
    }
}

fn files(folder: &Path) -> Result<Vec<(PathBuf, DefinitionFormat)>, NotDefined> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => DefinitionFormat::Toml,
            Some("json") => DefinitionFormat::Json,
            _ => continue,
        };
        files.push((path, format));
        if files.len() > FILES_MAX {
            return Err(NotDefined::TooMany);
        }
    }
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(files)
}

fn read(file: &Path) -> Result<String, NotDefined> {
    let bytes = std::fs::metadata(file)?.len();
    if bytes > DEFINITION_BYTES_MAX as u64 {
        return Err(NotDefined::TooLarge { bytes });
    }
    Ok(std::fs::read_to_string(file)?)
}
