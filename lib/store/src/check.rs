//! Checks: whether a database is what was written. What is live is checked at every start, row by row (see `load`); what has ended when it is
//! read; and all of it before anything is given up.

use crate::{StoreError, load::text, record, schema::TABLES_AND_KEYS};
use rusqlite::{Connection, types::ValueRef};
use std::path::Path;

/// Up to this size the structure of the file is checked at every start: that takes about as long as to read it twice.
const AT_EVERY_START: u64 = 64 << 20;
/// Most things that are named of a damaged structure.
const MOST_NAMED: u32 = 20;

/// Checks the structure of a file that is not large: pages, and that every index has what its table has.
///
/// # Errors
/// [`StoreError::Damaged`].
pub(crate) fn structure(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    if path.metadata().is_ok_and(|meta| meta.len() > AT_EVERY_START) {
        return Ok(());
    }
    match damaged_structure(conn, 1).into_iter().next() {
        Some(words) => Err(StoreError::Damaged(words)),
        None => Ok(()),
    }
}

fn damaged_structure(conn: &Connection, most: u32) -> Vec<String> {
    let words = conn.prepare(&format!("PRAGMA integrity_check({most})")).and_then(|mut check| {
        let words = check.query_map([], |row| row.get::<_, String>(0))?;
        words.collect::<Result<Vec<_>, _>>()
    });
    match words {
        Ok(words) => words.into_iter().filter(|word| word != "ok").collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// Checks what the file says of itself.
///
/// # Errors
/// [`StoreError::Damaged`].
pub(crate) fn meta(conn: &Connection) -> Result<(), StoreError> {
    let mut select = conn.prepare("SELECT * FROM meta")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let key = text(row, 0)?;
        record::whole(row, || format!("meta.{key}"))?;
    }
    Ok(())
}

/// All that is damaged, in words.
///
/// # Errors
/// When not even the tables can be listed.
pub(crate) fn all(conn: &Connection) -> Result<Vec<String>, StoreError> {
    let mut words = damaged_structure(conn, MOST_NAMED);
    for (table, keys) in TABLES_AND_KEYS {
        let mut select = conn.prepare(&format!("SELECT * FROM {table}"))?;
        let mut rows = select.query([])?;
        loop {
            match rows.next() {
                Ok(None) => break,
                Ok(Some(row)) => {
                    if !is_whole(table, row)? {
                        words.push(name(table, keys, row));
                    }
                }
                Err(error) => {
                    words.push(format!("{table}: {error}"));
                    break;
                }
            }
        }
    }
    Ok(words)
}

/// Whether a row is what was written.
pub(crate) fn is_whole(table: &str, row: &rusqlite::Row<'_>) -> Result<bool, StoreError> {
    if table != "event" {
        return Ok(record::whole(row, String::new).is_ok());
    }
    let (job, crc, body): (i64, u32, String) = (row.get("job")?, row.get("crc")?, row.get("body")?);
    Ok(crate::history::read_event(crc, &body, gq_model::JobId(crate::load::unsigned(job))).is_ok())
}

/// A row's name: the first of its columns, which are its key.
pub(crate) fn name(table: &str, keys: usize, row: &rusqlite::Row<'_>) -> String {
    let key = |at: usize| match row.get_ref(at) {
        Ok(ValueRef::Integer(number)) => number.to_string(),
        Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).escape_debug().to_string(),
        Ok(ValueRef::Blob(bytes)) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Ok(ValueRef::Null | ValueRef::Real(_)) | Err(_) => "?".to_owned(),
    };
    format!("{table} {}", (0..keys).map(key).collect::<Vec<_>>().join("."))
}
