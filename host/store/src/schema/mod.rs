//! Migrations: texts in order, each applied once in a transaction of its own and remembered with its checksum.
//!
//! A store that has a migration this host doesn't know belongs to a newer host and is refused.

use sha2::{Digest, Sha256};
use waybill_core::const_text::has;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Engine, Fault, Value, int_of, text, text_of};

use crate::config::OpenError;
use crate::fault::store_error;

#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number; they are applied in this order.
    pub number: i64,
    pub name: &'static str,
    pub text: &'static str,
}

pub const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "outbox", text: include_str!("0001_outbox.surql") },
    Migration { number: 2, name: "dedup", text: include_str!("0002_dedup.surql") },
    Migration { number: 3, name: "sagas", text: include_str!("0003_sagas.surql") },
    Migration { number: 4, name: "idempotency", text: include_str!("0004_idempotency.surql") },
    Migration { number: 5, name: "retention", text: include_str!("0005_retention.surql") },
    Migration { number: 6, name: "door_stamps", text: DOOR_STAMPS },
    Migration { number: 7, name: "inbox", text: include_str!("0007_inbox.surql") },
    Migration { number: 8, name: "streams", text: include_str!("0008_streams.surql") },
    Migration { number: 9, name: "append", text: include_str!("0009_append.surql") },
    Migration { number: 10, name: "tx_event", text: include_str!("0010_tx_event.surql") },
    Migration { number: 11, name: "index", text: include_str!("0011_index.surql") },
    Migration { number: 12, name: "tokens", text: include_str!("0012_tokens.surql") },
    Migration { number: 13, name: "schedules", text: include_str!("0013_schedules.surql") },
];

const DOOR_STAMPS: &str = include_str!("0006_door_stamps.surql");

/// The text that defined `fn::waybill::enqueue` last.
const ENQUEUE: &str = DOOR_STAMPS;

macro_rules! taken_by_enqueue {
    ($($variant:ident = $name:ident ($number:tt) { $($unused:tt)* })*) => {
        $(const _: () = assert!(
            has(ENQUEUE.as_bytes(), concat!("\"", stringify!($name), "\"").as_bytes())
                && has(ENQUEUE.as_bytes(), concat!(stringify!($name), ": $message.", stringify!($name)).as_bytes()),
            concat!("fn::waybill::enqueue doesn't take ", stringify!($name), ": a new migration has to define it anew")
        );)*
    };
}

waybill_core::annotation_rows!(taken_by_enqueue);

/// Tries of one migration when hosts start together.
const TRIES_MAX: u32 = 5;

fn checksum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Applies what is missing, and says which table stands in the way if an application has one of a name that a migration defines. `alone`:
/// this process has the database for itself.
pub async fn bring_up(engine: &dyn Engine, migrations: &[Migration], alone: bool) -> Result<(), OpenError> {
    loop {
        let Err(error) = migrate(engine, migrations).await else { return Ok(()) };
        let Ok(Some(table)) = taken(engine, migrations).await else { return Err(error.into()) };
        // Callers can move their rows and can't remove a table: an empty one is nobody's. At a server it may be defined with a purpose.
        if !alone || !is_empty(engine, table).await? {
            return Err(OpenError::Table { table });
        }
        engine.run(&format!("REMOVE TABLE {table}"), Vec::new()).await.map_err(store_error)?;
    }
}

/// A table of the missing migration that is there without it.
async fn taken(engine: &dyn Engine, migrations: &[Migration]) -> Result<Option<&'static str>, StoreError> {
    let answers = engine.run("INFO FOR DB", Vec::new()).await.map_err(store_error)?;
    // Looked at behind the tables: those that another host made meanwhile came with their migration.
    let Some(migration) = missing(engine, migrations).await? else { return Ok(None) };
    let Some(Value::Object(database)) = answers.into_iter().next() else { return Ok(None) };
    let Some(Value::Object(there)) = database.get("tables") else { return Ok(None) };
    Ok(tables_of(migration.text).find(|table| there.get(table).is_some()))
}

/// The tables that a migration defines.
pub fn tables_of(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter_map(|line| line.strip_prefix("DEFINE TABLE ")?.split_whitespace().next())
}

async fn is_empty(engine: &dyn Engine, table: &str) -> Result<bool, StoreError> {
    let text = format!("SELECT VALUE id FROM {table} LIMIT 1");
    let answers = engine.run(&text, Vec::new()).await.map_err(store_error)?;
    Ok(matches!(answers.first(), Some(Value::Array(rows)) if rows.0.is_empty()))
}

/// Applies what is missing.
pub async fn migrate(engine: &dyn Engine, migrations: &[Migration]) -> Result<(), StoreError> {
    engine
        .run("DEFINE TABLE IF NOT EXISTS waybill_migration TYPE NORMAL SCHEMALESS", Vec::new())
        .await
        .map_err(store_error)?;
    for try_number in 1..=TRIES_MAX + migrations.len() as u32 {
        match missing(engine, migrations).await? {
            None => return Ok(()),
            Some(migration) => match apply(engine, migration).await {
                // Another host did it meanwhile: look again.
                Err(Fault::Conflict(_) | Fault::Exists(_)) if try_number < TRIES_MAX => {}
                done => done.map_err(store_error)?,
            },
        }
    }
    match missing(engine, migrations).await? {
        None => Ok(()),
        Some(migration) => Err(StoreError::Conflict(format!("migration {} could not be applied", migration.number))),
    }
}

/// The first one that isn't applied yet.
async fn missing<'m>(engine: &dyn Engine, migrations: &'m [Migration]) -> Result<Option<&'m Migration>, StoreError> {
    let text = "SELECT VALUE [number, checksum] FROM waybill_migration ORDER BY number";
    let answers = engine.run(text, Vec::new()).await.map_err(store_error)?;
    let applied: Vec<(i64, String)> = match answers.into_iter().next() {
        Some(Value::Array(rows)) => rows.0.iter().filter_map(number_and_checksum).collect(),
        _ => Vec::new(),
    };
    let known = migrations.last().map_or(0, |migration| migration.number);
    if let Some((number, _)) = applied.iter().find(|(number, _)| *number > known) {
        return Err(StoreError::NewerData(format!("it has migration {number}, this one knows {known}")));
    }
    for migration in migrations {
        match applied.iter().find(|(number, _)| *number == migration.number) {
            None => return Ok(Some(migration)),
            Some((number, found)) if *found != checksum(migration.text) => {
                return Err(StoreError::Corrupt(format!(
                    "migration {number} was applied with another text than this host has: use the release that applied it"
                )));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

fn number_and_checksum(row: &Value) -> Option<(i64, String)> {
    let Value::Array(pair) = row else { return None };
    Some((int_of(pair.0.first())?, text_of(pair.0.get(1))?.to_owned()))
}

async fn apply(engine: &dyn Engine, migration: &Migration) -> Result<(), Fault> {
    let text_of_all = format!(
        "BEGIN;\n{}\nCREATE waybill_migration:{number} SET number = {number}, name = $name, checksum = $checksum, applied_at = time::now();\nCOMMIT;",
        migration.text,
        number = migration.number
    );
    let bindings = vec![("name".into(), text(migration.name)), ("checksum".into(), text(checksum(migration.text)))];
    engine.run(&text_of_all, bindings).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checksums of migrations that stores out there have applied, from the first one on. One that has landed gets its line here.
    const LANDED: &[&str] = &[
        "55c0a00e7c582e979fcb71a0d7b3d79dc9cc6215674ee8c9e50b72eafa3e6cb3",
        "e5ee3f687a4cda2678df323be5b55ed18cdc0e7008e694357fcb46a076857560",
        "e3d98ea9e53afff05999f76cbf6d40b4b42d2ba5cab127b7973c8565b14c6bc5",
        "1e492327bdcfba07db024a6cecf9bc38574548f1125a8779113b6a0cd9440ac1",
        "3a14fe07a1a6f4713353966438d9df8ade31a93e4a6d4fe84a1a5d9c1a027193",
        "2194e671edc4350cc8d27c87fd256b9c0996761c936002c780eebfde624e5512",
        "d4264c27c7034e1d183f84da2e08971c54098c34de7fe9a6d7caa0ef86bbd5fa",
        "62697a5369c0fba02cca5c2074d33afca66bf84fd12f54eedb31bccc88315b1c",
        "e76897a3f6d8fcbbee3357a89e4fa527dfee3167ff972b4318da702dbfbc0aac",
        "c9967d1c721a4e63a6ee77451104ccd073ffc5ec2bf4df8812f6b1a158d639c7",
        "b00d8bbc38439417034b3780bab0aeae1033511d713fb79962183c68eed1b52f",
        "a5d1ccf8c00177058fc4e2d5ec094e9e879d294c4d335f045ed7cf814f4f651d",
    ];

    #[test]
    fn a_migration_that_has_landed_is_never_changed() {
        for (number, (migration, landed)) in (1..).zip(MIGRATIONS.iter().zip(LANDED)) {
            assert_eq!(migration.number, number, "migrations are numbered from 1 on, without gaps");
            assert_eq!(
                checksum(migration.text),
                *landed,
                "migration {number} ({}) was changed. Stores that have applied it would be refused by this host: put its text back, and \
                 write a new migration for what it lacks",
                migration.name
            );
        }
        assert!(
            LANDED.len() + 1 >= MIGRATIONS.len() && LANDED.len() <= MIGRATIONS.len(),
            "only the last migration may still change: add the checksums of those before it to LANDED"
        );
    }
}
