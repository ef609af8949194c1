//! Tests of the conf as a whole: what is read, what is refused and where, and that the manual knows what the code knows.
