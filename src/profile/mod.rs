//! The profile language: what kinds of device keep where, as data.
//!
//! A file's tree goes into [`parse`] and comes out as a [`DeviceProfile`], or as every mistake in it. [`builtin`] has the
//! profiles shipped in the binary, [`Model`] the vendor-neutral shadow models, [`Dump`] registers as somebody read them.

mod builtin;
mod device_profile;
mod dump;
mod layout;
mod models;
mod reader;

pub use builtin::{builtin, builtin_text};
pub use device_profile::{
    Access, Cut, DeviceProfile, Encoding, Group, Limits, Meaning, OnPartial, Order, Parity, Point, ProfileTest,
    RawType, Scale, SerialDefaults, Timing,
};
pub use dump::Dump;
pub use layout::Intervals;
pub use models::{Leaf, LeafKind, Model, PathKind};
pub use reader::{parse, parse_node};
