//! How rows and events are written: versioned JSON, and a checksum in every row.

use crate::StoreError;
use gq_cluster::{Booking, Event, Job, Node};
use rusqlite::{Connection, Row, functions::FunctionFlags, types::ValueRef};
use serde::{Deserialize, Serialize};

/// The version of rows and events.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Written<'a, T> {
    v: u32,
    r: &'a T,
}

#[derive(Deserialize)]
struct Read<T> {
    v: u32,
    r: T,
}

/// What is kept as a record.
pub(crate) trait Kept: Serialize + serde::de::DeserializeOwned {}
impl Kept for Event {}
impl Kept for Job {}
impl Kept for Node {}
impl Kept for Booking {}

pub(crate) fn write<T: Kept>(value: &T) -> Result<String, StoreError> {
    Ok(serde_json::to_string(&Written { v: VERSION, r: value })?)
}

/// `what` names the row for the message.
pub(crate) fn read<T: Kept>(text: &str, what: impl FnOnce() -> String) -> Result<T, StoreError> {
    match serde_json::from_str::<Read<T>>(text) {
        Ok(read) if read.v <= VERSION => Ok(read.r),
        Ok(read) => Err(StoreError::Damaged(format!("{} is of version {}", what(), read.v))),
        Err(error) => Err(StoreError::Damaged(format!("{}: {error}", what()))),
    }
}

/// The checksum of a row's other columns, in their order.
fn checksum<'a>(values: impl Iterator<Item = ValueRef<'a>>) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    let mut add = |kind: u8, bytes: &[u8]| {
        sum.update(&[kind]);
        sum.update(&(bytes.len() as u64).to_le_bytes());
        sum.update(bytes);
    };
    for value in values {
        match value {
            ValueRef::Null => add(0, &[]),
            ValueRef::Integer(number) => add(1, &number.to_le_bytes()),
            ValueRef::Real(number) => add(2, &number.to_le_bytes()),
            ValueRef::Text(text) => add(3, text),
            ValueRef::Blob(bytes) => add(4, bytes),
        }
    }
    sum.finalize()
}

/// Gives a connection the function `row_crc`: the checksum of its arguments.
pub(crate) fn know_checksums(conn: &Connection) -> Result<(), StoreError> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_scalar_function("row_crc", -1, flags, |args| {
        Ok(i64::from(checksum((0..args.len()).map(|at| args.get_raw(at)))))
    })?;
    Ok(())
}

/// `INSERT OR REPLACE` of a whole row of a table with so many columns, its checksum the last.
pub(crate) fn put(table: &str, columns: usize) -> String {
    let values: Vec<String> = (1..columns).map(|at| format!("?{at}")).collect();
    let values = values.join(",");
    format!("INSERT OR REPLACE INTO {table} VALUES({values},row_crc({values}))")
}

/// Refuses a row whose last column is not the checksum of the others. The row has all columns of its table; `what` names it.
pub(crate) fn whole(row: &Row<'_>, what: impl FnOnce() -> String) -> Result<(), StoreError> {
    let last = row.as_ref().column_count().saturating_sub(1);
    let values = (0..last).map(|at| row.get_ref(at)).collect::<Result<Vec<_>, _>>()?;
    let kept: Option<u32> = row.get(last).ok();
    if kept == Some(checksum(values.into_iter())) {
        return Ok(());
    }
    Err(StoreError::Damaged(format!("{}: the checksum does not fit", what())))
}
