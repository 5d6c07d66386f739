//! The concurrent twin store.
