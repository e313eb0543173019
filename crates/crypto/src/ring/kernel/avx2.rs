//! Tiles with AVX2: 16-bit products added in pairs, a panel's 16 lanes in two registers.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_load_si256, _mm256_madd_epi16, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_store_si256,
};

use super::dot::{Lanes, MAXIMUM_DIGITS, Tile};

/// Pixels of a full tile, by digits per value: up to 12 of the 16 registers hold sums.
pub(super) const PIXELS_PER_TILE: [usize; MAXIMUM_DIGITS] = [6, 3, 2, 1, 1, 1, 1, 1];

/// Computes a tile of 16-bit halves with one panel.
///
/// # Safety
/// The processor has AVX2; every word that the tile's segments name lies inside its slices; the sums are as many
/// as the tile has.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn run(tile: &Tile<'_>, sums: &mut [Lanes]) {
    macro_rules! choose {
        ($(($digits:literal, $pixels:literal)),*) => {
            match (tile.digits, tile.pixels.len()) {
                $(($digits, $pixels) => multiply::<$digits, $pixels>,)*
                _ => unreachable!("tiles have one pixel or as many as PIXELS_PER_TILE says"),
            }
        };
    }
    let multiply: unsafe fn(&Tile<'_>, &mut [Lanes]) =
        choose!((1, 1), (1, 6), (2, 1), (2, 3), (3, 1), (3, 2), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1));
    // SAFETY: the caller's promises, and the const parameters are the tile's own counts.
    unsafe { multiply(tile, sums) }
}

/// # Safety
/// As for [`run`]; the const parameters are the tile's counts.
#[target_feature(enable = "avx2")]
#[allow(clippy::needless_range_loop, reason = "loops with constant bounds keep the sums in registers")]
unsafe fn multiply<const DIGITS: usize, const PIXELS: usize>(tile: &Tile<'_>, sums: &mut [Lanes]) {
    let mut accumulators = [[[_mm256_setzero_si256(); 2]; DIGITS]; PIXELS];
    let mut panel = tile.panels[0].as_ptr();
    for segment in tile.segments {
        let mut pixels: [*const u32; PIXELS] = std::array::from_fn(|pixel| {
            // SAFETY: the segment of each pixel lies inside the input.
            unsafe { tile.input.as_ptr().add(tile.pixels[pixel] + segment.offset) }
        });
        for _ in 0..segment.steps {
            // SAFETY: each step reads one row of the panel and DIGITS words of each pixel; the caller promised that
            // the segments' steps lie inside both. `Lanes` is 64 bytes long and aligned.
            unsafe {
                let weights: [__m256i; 2] =
                    std::array::from_fn(|half| _mm256_load_si256(panel.cast::<__m256i>().add(half)));
                for pixel in 0..PIXELS {
                    for digit in 0..DIGITS {
                        let digits = _mm256_set1_epi32((*pixels[pixel].add(digit)).cast_signed());
                        for half in 0..2 {
                            let sum = &mut accumulators[pixel][digit][half];
                            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(digits, weights[half]));
                        }
                    }
                    pixels[pixel] = pixels[pixel].add(DIGITS);
                }
                panel = panel.add(1);
            }
        }
    }
    assert_eq!(sums.len(), PIXELS * DIGITS);
    for pixel in 0..PIXELS {
        for digit in 0..DIGITS {
            let target: *mut __m256i = std::ptr::from_mut(&mut sums[pixel * DIGITS + digit]).cast();
            for half in 0..2 {
                // SAFETY: `Lanes` is 64 bytes long and aligned to as many: room for both halves.
                unsafe { _mm256_store_si256(target.add(half), accumulators[pixel][digit][half]) };
            }
        }
    }
}
