//! The field bus: which reads are made when, and which replies are believed. Sans-IO, `now` as an argument.

mod backoff;
mod belief;
mod bus;
mod counters;
mod cycle;
mod options;
mod plan;
mod quarantine;
mod report;
mod setup;
mod unit;

pub use backoff::Backoff;
pub use belief::{Awaited, Verdict, judge};
pub use bus::Bus;
pub use counters::{Histogram, LinkCounters, Traffic, UnitCounters};
pub use options::{BusOptions, Deed};
pub use plan::{Experience, Plan, PlanError, PlanErrors, Read, ReadCost, Wanted};
pub use report::{CycleReport, GroupReport, Part, PartOutcome};
pub use setup::{GroupCost, GroupSetup, IntervalSetup, UnitSetup};
