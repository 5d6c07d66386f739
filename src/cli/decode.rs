//! `fieldshadow decode`: registers that somebody saved, through a profile to the shadow. Nothing is contacted.

use super::{Failure, print, words};
use crate::codec::decode_dump;
use crate::model::{Configuration, DeviceId, Epoch, Stamp};
use crate::profile::{DeviceProfile, Dump, Intervals};
use crate::twin::{DeviceTwin, Options, Store};
use clap::Args;
use std::io::Read;
use std::sync::Arc;

/// Decode a dump of registers with a profile, offline.
#[derive(Debug, Args)]
#[command(after_help = "Example: fieldshadow decode --profile eastron/sdm630 dump.json\n\n\
    A dump: {\"holding\":{\"0x0B00\":[1450,1450]},\"input\":{},\"coil\":{\"0\":true},\"discrete\":{}}; addresses as on \
    the wire, what is missing cannot be read.")]
pub(super) struct Words {
    /// A profile's name, or a file.
    #[arg(long, value_name = "P")]
    profile: String,
    /// The dump; `-` reads standard input.
    #[arg(value_name = "DUMP.json")]
    dump: String,
}

pub(super) fn run(asked: &Words) -> Result<(), Failure> {
    let file = words::profile(&asked.profile)?;
    let dump = dump(&asked.dump)?;
    print::reading(&decoded(&file.profile, &dump)).map(|_| ())
}

/// Reads a dump, or says what is wrong with it.
pub(super) fn dump(path: &str) -> Result<Dump, Failure> {
    let mut text = String::new();
    let read = if path == "-" {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Failure::User(format!("{path}: {error}")))?;
    Dump::from_json(&text).map_err(|error| Failure::User(format!("{path}: {error}")))
}

/// The state that a device with these registers would have: through the same store as a polled one.
fn decoded(profile: &DeviceProfile, dump: &Dump) -> Arc<DeviceTwin> {
    let device = DeviceId::new("dump").expect("a name of letters");
    let store = Store::new(Epoch(1), &Options::default());
    let layout = Arc::new(profile.layout(&Intervals::new()));
    store.configure(&device, Configuration::Ready(layout), Stamp::default());
    for batch in decode_dump(&device, profile, dump, Stamp::default()) {
        store.commit(&batch).expect("it was just configured");
    }
    Arc::clone(store.root().device(&device).expect("it was just configured"))
}
