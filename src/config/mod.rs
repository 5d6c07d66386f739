//! Configuration and device files.
