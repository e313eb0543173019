//! RLWE with coefficient packing.
