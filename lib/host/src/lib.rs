//! Processes, users, stdio and limits of the machine.
