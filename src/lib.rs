//! fieldshadow: an industrial protocol gateway with a device-shadow twin store.
//!
//! Data goes through the rooms in one direction, as along a corridor: `transport` → `poll` → `codec` → `twin` →
//! `shadow` → `mqtt`. Only `gateway` sees them all; it carries and never decides. ARCHITECTURE.md has the map and the
//! law of imports, `tests/architecture.rs` keeps it.

pub mod cli;
pub mod codec;
pub mod config;
pub mod document;
#[doc(hidden)]
pub mod fuzz;
pub mod gateway;
pub mod modbus;
pub mod model;
pub mod mqtt;
pub mod poll;
pub mod profile;
pub mod shadow;
pub mod simulate;
pub mod transport;
pub mod twin;
