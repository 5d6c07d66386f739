//! The field bus: which reads are made when, and which replies are believed. Sans-IO, `now` as an argument.

mod report;

pub use report::{CycleReport, GroupReport, Part, PartOutcome};
