//! Safe loops compiled for the widest vectors of the processor.
//!
//! The compiler finds vectors in a loop by itself, but those of the oldest processor that the program runs on. [`wide!`]
//! compiles a function once for each instruction set and picks at run time; the portable version is the same source, so
//! the versions cannot differ. The kernels of `ring` do so by a trait and are told which features to use. Here `SORDINO_CPU`
//! decides alone: `scripts/test` runs the tests of this crate under lower ceilings, too.

/// Defines a function that is compiled for AVX-512, AVX2 and any processor, and calls the best of them.
macro_rules! wide {
    ($(#[$about:meta])* $visible:vis fn $name:ident($($given:ident: $type:ty),* $(,)?) $(-> $made:ty)? $body:block) => {
        $(#[$about])*
        #[allow(unsafe_code, clippy::too_many_arguments, reason = "one call for each instruction set")]
        $visible fn $name($($given: $type),*) $(-> $made)? {
            #[inline(always)]
            fn anywhere($($given: $type),*) $(-> $made)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn with_avx512($($given: $type),*) $(-> $made)? {
                    anywhere($($given),*)
                }

                #[target_feature(enable = "avx2")]
                fn with_avx2($($given: $type),*) $(-> $made)? {
                    anywhere($($given),*)
                }

                let features = $crate::cpu::CpuFeatures::available();
                if features.avx512 {
                    // SAFETY: `avx512` is set only where F, BW, DQ and VL were detected.
                    return unsafe { with_avx512($($given),*) };
                }
                if features.avx2 {
                    // SAFETY: `avx2` is set only where it was detected.
                    return unsafe { with_avx2($($given),*) };
                }
            }
            anywhere($($given),*)
        }
    };
}

pub(crate) use wide;

#[cfg(test)]
mod tests {
    wide! {
        /// A sum of products.
        fn dot(left: &[u64], right: &[u64]) -> u64 {
            left.iter().zip(right).fold(0, |sum, (left, right)| sum.wrapping_add(left.wrapping_mul(*right)))
        }
    }

    #[test]
    fn the_version_that_is_picked_computes_what_the_source_says() {
        let (left, right): (Vec<u64>, Vec<u64>) = (0..1000).map(|value| (value, 3 * value + 1)).unzip();
        assert_eq!(dot(&left, &right), (0..1000).map(|value| value * (3 * value + 1)).sum::<u64>());
    }
}
