//! Registers to typed values. Pure.
