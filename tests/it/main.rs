//! Story tests over the real daemons, and tests of the house itself.

mod house;
mod lab;
mod smoke;
