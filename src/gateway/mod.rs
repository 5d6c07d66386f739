//! The corridor: carries between the rooms and never decides.

mod clock;

pub use clock::Clock;
