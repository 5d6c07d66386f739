//! Pretend devices made from profiles.
