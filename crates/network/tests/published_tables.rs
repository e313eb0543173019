//! The papers' own tables as the oracle: one row a network, its source named.
//!
//! ReLUs must equal the printed digits exactly, multiply-adds (which the papers call FLOPs) within 1.5%. Where a
//! paper prints something its own networks do not have, the row says so ([`Printed::Slip`]) and pins what we count.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod published {
    pub(crate) mod check;
    mod deepreduce;
    mod deepreshape;
    mod snl;
    mod sphynx;
}
