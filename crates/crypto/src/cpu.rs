//! Which kernels this processor may run.
//!
//! Detection happens once. `SORDINO_CPU=portable` or `SORDINO_CPU=avx2` lowers the ceiling, so that the slower
//! paths can be tested and measured on a fast machine; it can never raise it. Kernels also accept an explicit
//! [`CpuFeatures`], which is how tests compare each of them with its safe twin.

use std::sync::OnceLock;

/// The instruction sets that kernels ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuFeatures {
    /// AES-NI, one AES round on 128 bits, and PCLMULQDQ, a product without carries.
    pub aes: bool,
    /// VAES with 512-bit registers: one AES round on four blocks.
    pub vaes512: bool,
    /// AVX2.
    pub avx2: bool,
    /// AVX-512 F, BW, DQ, VL and VBMI, with BMI2: the base of all 512-bit kernels here.
    pub avx512: bool,
    /// AVX-512 IFMA: 52-bit multiply-accumulate.
    pub ifma: bool,
    /// AVX-512 VNNI: byte dot products.
    pub vnni: bool,
}

impl CpuFeatures {
    /// No vector instructions at all: every kernel takes its safe portable twin.
    pub const PORTABLE: Self =
        Self { aes: false, vaes512: false, avx2: false, avx512: false, ifma: false, vnni: false };

    /// What this processor has, below the ceiling set by `SORDINO_CPU`.
    pub fn available() -> Self {
        static AVAILABLE: OnceLock<CpuFeatures> = OnceLock::new();
        *AVAILABLE.get_or_init(|| {
            let ceiling = std::env::var("SORDINO_CPU").unwrap_or_default();
            Self::detect().limited_to(&ceiling)
        })
    }

    /// These features without what the ceiling forbids: `portable`, `avx2` (with AES-NI), or anything else for
    /// no limit.
    #[must_use]
    pub fn limited_to(self, ceiling: &str) -> Self {
        match ceiling {
            "portable" => Self::PORTABLE,
            "avx2" => Self { vaes512: false, avx512: false, ifma: false, vnni: false, ..self },
            _ => self,
        }
    }

    /// What this processor has, whatever the environment says.
    #[cfg(target_arch = "x86_64")]
    pub fn detect() -> Self {
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("bmi2");
        Self {
            aes: is_x86_feature_detected!("aes")
                && is_x86_feature_detected!("pclmulqdq")
                && is_x86_feature_detected!("sse4.1"),
            vaes512: avx512 && is_x86_feature_detected!("vaes"),
            avx2: is_x86_feature_detected!("avx2"),
            avx512,
            ifma: avx512 && is_x86_feature_detected!("avx512ifma"),
            vnni: avx512 && is_x86_feature_detected!("avx512vnni"),
        }
    }

    /// What this processor has, whatever the environment says.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn detect() -> Self {
        Self::PORTABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_only_takes_away() {
        let all = CpuFeatures { aes: true, vaes512: true, avx2: true, avx512: true, ifma: true, vnni: true };
        assert_eq!(all.limited_to("portable"), CpuFeatures::PORTABLE);
        assert_eq!(
            all.limited_to("avx2"),
            CpuFeatures { vaes512: false, avx512: false, ifma: false, vnni: false, ..all }
        );
        assert_eq!(all.limited_to(""), all);
        assert_eq!(CpuFeatures::PORTABLE.limited_to("avx2"), CpuFeatures::PORTABLE);
    }
}
