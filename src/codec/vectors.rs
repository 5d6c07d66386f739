//! Other people's vectors.
