//! Decides what an input means: events and effects, and the turn that makes them durable.
