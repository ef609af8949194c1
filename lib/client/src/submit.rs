//! `gqsub`: submits a script.
