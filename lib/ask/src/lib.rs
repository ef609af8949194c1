//! Turns options and script directives into a job's request.
