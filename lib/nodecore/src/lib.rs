//! Decides what a node does: letters, run table, launch, kill, adopt, report.
