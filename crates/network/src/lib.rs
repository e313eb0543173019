//! What a network is.
