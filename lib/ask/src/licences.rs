//! Licences: `-L name[:N],…`, read. Whether the cluster has them is gqd's business.

use crate::{Problem, values};
use gq_model::{LicenceAsk, NodeName};
use std::collections::BTreeMap;

/// Most licences that one job may name.
const MOST: usize = 64;
const WHAT: &str = "licences as NAME or NAME:NUMBER, joined by commas, such as houdini:2,denoiser";

/// `NAME[:N],…`: each name once, in order of name, and what was asked for twice added up.
pub(crate) fn licences(text: &str) -> Result<Vec<LicenceAsk>, Problem> {
    if text.contains('|') {
        return Err(Problem::NotBuilt("--licenses with alternatives joined by |".into()));
    }
    let mut sums: BTreeMap<&str, u32> = BTreeMap::new();
    for word in text.split(',') {
        let (name, count) = word.split_once(':').unwrap_or((word, "1"));
        // A licence is named in the conf by the same letters as a node.
        if name.parse::<NodeName>().is_err() {
            return Err(Problem::Expected(WHAT));
        }
        let count = match values::number(count, WHAT)? {
            0 => return Err(Problem::Expected(WHAT)),
            count => count,
        };
        let sum = sums.entry(name).or_default();
        *sum = sum.checked_add(count).ok_or(Problem::Other("more licences than can be counted"))?;
    }
    if sums.len() > MOST {
        return Err(Problem::Other("a job may name 64 licences at most"));
    }
    Ok(sums.into_iter().map(|(name, count)| LicenceAsk { name: name.to_owned(), count }).collect())
}
