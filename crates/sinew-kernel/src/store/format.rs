//! The tables of a store's file, the version of their format, and the checksum of a value.
//!
//! Format 2 has a checksum with each value. Format 1 had none, in a table of the same name: its values are given theirs when
//! the file is opened, in one commit. A version of Sinew that knows format 1 alone refuses a file of format 2, since the type of
//! the table is another one.

use std::hash::Hasher;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, TableError, TableHandle};
use twox_hash::XxHash64;

/// The format that this version writes.
pub(super) const FORMAT: u64 = 2;

type OwnerAndKey = (&'static str, &'static str);

/// From owner and key to checksum and value.
pub(super) const STATE: TableDefinition<OwnerAndKey, (u64, &[u8])> = TableDefinition::new("state");
/// What the table of that name is in format 1.
const STATE_1: TableDefinition<OwnerAndKey, &[u8]> = TableDefinition::new("state");
/// What it is called while its values are copied.
const COPIED: TableDefinition<OwnerAndKey, &[u8]> = TableDefinition::new("state of format 1");
/// The version of the format, under `VERSION`.
const META: TableDefinition<&str, u64> = TableDefinition::new("sinew");
const VERSION: &str = "format";

/// The checksum of a value. It covers owner and key, so that a value under another key is noticed.
pub(super) fn checksum(owner: &str, key: &str, value: &[u8]) -> u64 {
    let mut hash = XxHash64::with_seed(FORMAT);
    for part in [owner.as_bytes(), key.as_bytes(), value] {
        hash.write(&(part.len() as u64).to_le_bytes());
        hash.write(part);
    }
    hash.finish()
}

/// What the file of a database turns out to be.
pub(super) enum Found {
    /// A store that can be used.
    Store,
    /// A store of this format, which this version does not know.
    Newer(u64),
    /// A database of something else.
    Foreign,
}

/// Looks at the format of a database, which becomes the present one if it is older or the database is new.
pub(super) fn prepare(database: &Database) -> Result<Found, redb::Error> {
    let reads = database.begin_read()?;
    match reads.open_table(META) {
        Ok(meta) => {
            return Ok(match meta.get(VERSION)?.map(|version| version.value()) {
                Some(FORMAT) => Found::Store,
                Some(newer) => Found::Newer(newer),
                None => Found::Foreign,
            });
        }
        Err(TableError::TableDoesNotExist(_)) => (),
        Err(TableError::TableTypeMismatch { .. }) => return Ok(Found::Foreign),
        Err(error) => return Err(error.into()),
    }
    let is_format_1 = match reads.open_table(STATE_1) {
        Ok(_) => true,
        Err(TableError::TableDoesNotExist(_)) => false,
        Err(TableError::TableTypeMismatch { .. }) => return Ok(Found::Foreign),
        Err(error) => return Err(error.into()),
    };
    if reads.list_tables()?.any(|table| table.name() != STATE_1.name()) {
        return Ok(Found::Foreign);
    }
    drop(reads);

    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_quick_repair(true);
    if is_format_1 {
        transaction.rename_table(STATE_1, COPIED)?;
        let old = transaction.open_table(COPIED)?;
        let mut new = transaction.open_table(STATE)?;
        for entry in old.iter()? {
            let (name, value) = entry?;
            let ((owner, key), value) = (name.value(), value.value());
            new.insert((owner, key), (checksum(owner, key, value), value))?;
        }
        drop((old, new));
        transaction.delete_table(COPIED)?;
    }
    transaction.open_table(STATE)?;
    transaction.open_table(META)?.insert(VERSION, FORMAT)?;
    transaction.commit()?;
    Ok(Found::Store)
}
