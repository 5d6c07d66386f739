//! Names of the native topics: `PREFIX/DEVICE/state` and its kin.

use crate::model::DeviceId;
use std::sync::Arc;

/// What stands before the device in every native topic. Default `fieldshadow`.
///
/// 1 to 200 bytes, levels separated by `/`, none of them empty; no wildcards, no control characters, no `$` at the
/// beginning (such topics belong to the broker or to other dialects).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(Arc<str>);

/// Why a text is no [`Prefix`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Nothing was given, or a level is empty, as in `/a`, `a//b`, `a/`.
    #[error("a topic prefix has no empty levels: write `plant/line-1`, without a slash at either end")]
    EmptyLevel,
    /// Longer than a topic may reasonably be.
    #[error("a topic prefix has at most {max} bytes, this one has {0}", max = Prefix::MAX_LEN)]
    TooLong(usize),
    /// A wildcard or a control character.
    #[error("`{}` cannot stand in a topic prefix", .0.escape_default())]
    Character(char),
    /// It begins with `$`.
    #[error("topics that begin with `$` belong to the broker")]
    Reserved,
}

/// The native topics of one device or of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// The whole shadow, retained.
    State,
    /// What one commit changed.
    Change,
    /// Whether it can be reached, retained; also the gateway's own.
    Status,
    /// JSON Schema of the shadow, retained.
    Schema,
}

impl Topic {
    /// The last level.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Change => "change",
            Self::Status => "status",
            Self::Schema => "schema",
        }
    }
}

impl Prefix {
    /// The longest prefix, in bytes.
    pub const MAX_LEN: usize = 200;

    /// Takes a prefix, or says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, PrefixError> {
        if text.split('/').any(str::is_empty) {
            return Err(PrefixError::EmptyLevel);
        }
        if text.starts_with('$') {
            return Err(PrefixError::Reserved);
        }
        if let Some(c) = text.chars().find(|c| matches!(c, '+' | '#') || c.is_control()) {
            return Err(PrefixError::Character(c));
        }
        if text.len() > Self::MAX_LEN {
            return Err(PrefixError::TooLong(text.len()));
        }
        Ok(Self(Arc::from(text)))
    }

    /// The prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A topic of a device, or of the gateway, whose name obeys the same rule.
    pub fn topic(&self, device: &DeviceId, topic: Topic) -> String {
        let (device, last) = (device.as_str(), topic.as_str());
        let mut text = String::with_capacity(self.0.len() + device.len() + last.len() + 2);
        text.push_str(&self.0);
        text.push('/');
        text.push_str(device);
        text.push('/');
        text.push_str(last);
        text
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self(Arc::from("fieldshadow"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_prefix_device_kind() {
        let device = DeviceId::new("press-3").unwrap();
        assert_eq!(Prefix::default().topic(&device, Topic::State), "fieldshadow/press-3/state");
        assert_eq!(Prefix::new("acme/hall 2").unwrap().topic(&device, Topic::Status), "acme/hall 2/press-3/status");
    }

    #[test]
    fn what_a_broker_would_refuse_or_misread_is_refused() {
        for text in ["", "/a", "a/", "a//b"] {
            assert_eq!(Prefix::new(text), Err(PrefixError::EmptyLevel), "{text}");
        }
        assert_eq!(Prefix::new("a/+"), Err(PrefixError::Character('+')));
        assert_eq!(Prefix::new("a#"), Err(PrefixError::Character('#')));
        assert_eq!(Prefix::new("a\0"), Err(PrefixError::Character('\0')));
        assert_eq!(Prefix::new("$aws/things"), Err(PrefixError::Reserved));
        assert_eq!(Prefix::new(&"x".repeat(201)), Err(PrefixError::TooLong(201)));
    }
}
