//! The journey of an image through two parties and two phases.
//!
//! This crate is still bare: it will hold the private-inference protocol, which joins `network` (what is
//! computed) and `crypto` (how it is hidden). Neither of those knows the other.
