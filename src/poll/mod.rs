//! The field bus: which reads are made when, and which replies are believed. Sans-IO, `now` as an argument.

mod backoff;
mod plan;
mod report;

pub use backoff::Backoff;
pub use plan::{Experience, Plan, PlanError, Read, Wanted};
pub use report::{CycleReport, GroupReport, Part, PartOutcome};
