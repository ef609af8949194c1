//! The life of gqstep: one run, from its fence to its result.
