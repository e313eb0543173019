//! Values, shares and kernels over Z_2^l.
