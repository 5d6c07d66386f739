//! Names and numbers of things: one type each, so that none can be taken for another.

use std::fmt;
use std::sync::Arc;

/// A device's name: its place in topics and API paths.
///
/// 1 to 128 characters of `[A-Za-z0-9:_-]` (`spec`: device files). Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(Arc<str>);

/// Why a text is no [`DeviceId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceIdError {
    /// Nothing was given.
    #[error("a device's name is empty")]
    Empty,
    /// More than 128 characters.
    #[error("a device's name has {0} characters, the most is 128")]
    TooLong(usize),
    /// A character that topics or other dialects cannot carry.
    #[error("`{0}` cannot stand in a device's name: letters, digits, `:`, `_` and `-` can")]
    Character(char),
}

impl DeviceId {
    /// The longest name, in characters.
    pub const MAX_LEN: usize = 128;

    /// Takes a name, or says what is wrong with it.
    pub fn new(name: &str) -> Result<Self, DeviceIdError> {
        if name.is_empty() {
            return Err(DeviceIdError::Empty);
        }
        if let Some(c) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-'))) {
            return Err(DeviceIdError::Character(c));
        }
        if name.len() > Self::MAX_LEN {
            return Err(DeviceIdError::TooLong(name.len()));
        }
        Ok(Self(Arc::from(name)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceId({})", self.0)
    }
}

/// Index of a point in its device's [`super::Layout`], in profile order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PointId(pub u16);

/// Index of a group in its device's [`super::Layout`], in profile order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u16);

/// Index of an interval in its device's [`super::Layout`]: the groups with one `every`, read as one cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interval(pub u16);

macro_rules! counting_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

counting_number! {
    /// Which configuration of a device is meant: +1 each time the device is configured anew. A batch of an older
    /// generation is refused (SHD-008).
    Generation
}
counting_number! {
    /// Number of a poll cycle of one device, rising over all its intervals; given when the cycle starts.
    Cycle
}
counting_number! {
    /// Number of a commit of the whole store: exactly +1 per commit.
    Revision
}
counting_number! {
    /// Number of a device's shadow: +1 with each commit that changes a value, a quality or desired.
    Version
}
counting_number! {
    /// Which life of the store is meant: a watcher of another epoch starts over.
    Epoch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_keep_to_the_set() {
        assert_eq!(DeviceId::new("press-3:servo_A").unwrap().as_str(), "press-3:servo_A");
        assert_eq!(DeviceId::new(""), Err(DeviceIdError::Empty));
        assert_eq!(DeviceId::new("a/b"), Err(DeviceIdError::Character('/')));
        assert_eq!(DeviceId::new("ü"), Err(DeviceIdError::Character('ü')));
        assert_eq!(DeviceId::new(&"x".repeat(129)), Err(DeviceIdError::TooLong(129)));
        assert!(DeviceId::new(&"x".repeat(128)).is_ok());
    }
}
