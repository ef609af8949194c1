//! Appends to and reads the node's log of orders, starts and results.
