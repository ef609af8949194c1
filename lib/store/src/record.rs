//! How rows and events are written: versioned JSON.

use crate::StoreError;
use gq_cluster::{Booking, Event, Job, Node};
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
