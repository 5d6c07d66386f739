//! Registers to typed values. Pure.
//!
//! [`Decoder`] turns what the bus brought of a cycle into one [`crate::model::Batch`]; [`decode_dump`] does the same
//! with registers that somebody saved, and [`run_profile_test`] judges a profile by its own vectors.

mod decoder;
mod dumped;
mod recipe;
mod scale;
mod text;
#[cfg(test)]
mod vectors;

pub use decoder::Decoder;
pub use dumped::{decode_dump, run_profile_test};
