//! The built binary against foreign peers: a pymodbus server, a mosquitto broker, a Python validator.
//!
//! Every peer listens on loopback, on a port that was free, and ends with its test. Where a peer is missing the test
//! prints `skipped: …` and passes; `./test` installs them and counts what was skipped.

#![allow(unreachable_pub, reason = "a test binary has no outside")]

mod commands;
mod foreign;
mod harness;
mod road;
mod simulated;
mod whole;
