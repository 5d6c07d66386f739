//! `fieldshadow schema`: what a device's shadow, or a message, looks like.

use super::{Failure, print, words};
use crate::shadow::{MESSAGES, pretty, schema_message, schema_shadow};
use clap::{Args, Subcommand};

/// Print a JSON Schema.
#[derive(Debug, Args)]
#[command(after_help = "Example: fieldshadow schema shadow inovance/is620p")]
pub(super) struct Words {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What a device of a profile reports.
    #[command(after_help = "Example: fieldshadow schema shadow inovance/is620p")]
    Shadow {
        /// A profile's name, or a file.
        profile: String,
    },
    /// A message on one of the topics.
    #[command(after_help = "Example: fieldshadow schema message state")]
    Message {
        /// state, change, status or gateway-status.
        name: String,
    },
}

pub(super) fn run(asked: &Words) -> Result<(), Failure> {
    match &asked.what {
        What::Shadow { profile } => {
            let file = words::profile(profile)?;
            print::bytes(&pretty(&schema_shadow(&file.profile)))
        }
        What::Message { name } => {
            let schema = schema_message(name).ok_or_else(|| {
                let names: Vec<&str> = MESSAGES.iter().map(|(name, _)| *name).collect();
                Failure::User(format!("there is no message `{name}`; there are: {}", names.join(", ")))
            })?;
            print::bytes(schema.as_bytes())
        }
    }
}
