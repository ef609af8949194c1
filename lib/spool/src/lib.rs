//! Keeps the spool's directories: drop box, job files, letters as files, HEAD.
