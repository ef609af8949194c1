//! Keeps live rows, runs, audit trail, letters and the lock in SQLite.
