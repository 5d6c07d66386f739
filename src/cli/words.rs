//! Words that several commands share: durations, and the profiles a user may mean.

use super::Failure;
use crate::config::{Library, NotFound, ProfileFile};
use crate::document::{Diagnostics, Document};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A duration as files write it: `30s`, `500ms`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let document = Document::parse("", &format!("\"{}\"", text.replace('"', ""))).map_err(|_| text.to_owned())?;
    document.root().duration().map_err(|problem| problem.message)
}

/// Where commands look for profiles when no configuration names other places; then come the built-in ones.
pub(super) fn library() -> Library {
    Library::new(vec![
        PathBuf::from("/etc/fieldshadow/device-profiles"),
        PathBuf::from("/usr/share/fieldshadow/device-profiles"),
    ])
}

/// The profile that a user names: a file that exists, else a name.
pub(super) fn profile(name: &str) -> Result<Arc<ProfileFile>, Failure> {
    if std::path::Path::new(name).exists() {
        return library().open(name).map_err(|wrong| user(&wrong));
    }
    library().find(name).map_err(|error| match error {
        NotFound::Nowhere { message, remedy: Some(remedy) } => Failure::User(format!("{message}; {remedy}")),
        NotFound::Nowhere { message, remedy: None } => Failure::User(message),
        NotFound::Broken(wrong) => user(&wrong),
    })
}

/// Mistakes in the user's files, each with its line shown.
pub(super) fn user(wrong: &Diagnostics) -> Failure {
    Failure::User(wrong.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_with_their_unit() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("30").unwrap_err().contains("unit"));
        assert!(duration("\"").is_err());
    }
}
