//! Decides order, placement and backfill: a pure function over the cluster.
