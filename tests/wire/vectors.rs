//! Frames that other people computed.
