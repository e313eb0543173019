//! The inner loops, and the only place of this module with `unsafe`.
//!
//! Two kinds of kernel live here. [`vectorized`] compiles a safe loop once per instruction set and picks at run time:
//! the portable version is the same source, so the versions cannot differ. [`dot`] holds the dot products of the
//! convolutions, written with intrinsics where the compiler cannot find the instruction, next to a safe twin.
//! No kernel branches on a weight or on a value, and none skips a zero.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
pub(crate) mod bits;
pub(crate) mod cut;
pub(crate) mod dot;
pub(crate) mod elementwise;
pub(crate) mod polyphase;
#[cfg(target_arch = "x86_64")]
mod vnni;

use crate::cpu::CpuFeatures;

/// The features without those that this processor lacks. Kernels trust what they are given, so features that come
/// from outside the crate pass through here.
pub(crate) fn supported(features: CpuFeatures) -> CpuFeatures {
    let here = CpuFeatures::detect();
    CpuFeatures {
        aes: features.aes && here.aes,
        vaes512: features.vaes512 && here.vaes512,
        avx2: features.avx2 && here.avx2,
        avx512: features.avx512 && here.avx512,
        ifma: features.ifma && here.ifma,
        vnni: features.vnni && here.vnni,
    }
}

/// A safe loop that gains from being compiled for a wider instruction set.
pub(crate) trait Vectorized {
    /// Runs the loop. Implementations are `#[inline(always)]`, so that they take on their caller's instruction set.
    fn run(self);
}

/// Runs the loop with the widest vectors the features allow.
pub(crate) fn vectorized(features: CpuFeatures, work: impl Vectorized) {
    #[cfg(target_arch = "x86_64")]
    {
        if features.avx512 {
            // SAFETY: `avx512` is set only where F, BW, DQ and VL were detected.
            return unsafe { run_with_avx512(work) };
        }
        if features.avx2 {
            // SAFETY: `avx2` is set only where it was detected.
            return unsafe { run_with_avx2(work) };
        }
    }
    let _ = features;
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn run_with_avx512(work: impl Vectorized) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_with_avx2(work: impl Vectorized) {
    work.run();
}

/// Every level this processor can run, for tests that compare them.
#[cfg(test)]
pub(crate) fn levels() -> Vec<CpuFeatures> {
    let mut levels = vec![CpuFeatures::PORTABLE];
    for ceiling in ["avx2", ""] {
        let level = CpuFeatures::detect().limited_to(ceiling);
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}
