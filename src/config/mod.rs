//! Configuration and device files: what users write, read with every mistake at its place.
//!
//! The shell that reads these files, and no others. [`Config`] is the gateway's own configuration out of its layers;
//! [`Library`] finds profiles; [`scan_devices`] reads the devices folder; [`check_paths`] does what `fieldshadow check`
//! does. Other rooms do not know that files exist.

mod broker;
mod check;
mod device_values;
mod devices;
mod folder;
mod keys;
mod layers;
mod library;
mod link;
mod restrict;
mod settings;

pub use broker::{Broker, Scheme};
pub use check::{Checked, check_paths};
pub use device_values::{Endpoint, Writes};
pub use devices::{DeviceSetup, Refused, Scan, scan_devices};
pub use keys::schema;

pub use library::{Library, Listed, NotFound, Origin, ProfileFile};
pub use link::{FarEnd, Link, Links, SerialLine};
pub use settings::{
    Change, Config, Gateway, Log, LogFormat, LogLevel, Mqtt, Publish, Purpose, Secret, State, Twin, name_of_host,
};
