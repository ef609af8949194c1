//! Reads the conf file into a Config, with all its mistakes at once.
