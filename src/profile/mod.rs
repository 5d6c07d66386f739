//! The profile language: what kinds of device keep where, as data.

mod device_profile;
mod dump;

pub use device_profile::{
    Access, Cut, DeviceProfile, Encoding, Group, Limits, Meaning, OnPartial, Order, Point, ProfileTest, RawType, Scale,
    Timing,
};
pub use dump::Dump;
