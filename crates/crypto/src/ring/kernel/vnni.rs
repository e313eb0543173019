//! Tiles with AVX-512 VNNI: one instruction multiplies and adds 64 bytes or 32 halves.

use std::arch::x86_64::{
    __m512i, _mm512_dpbusd_epi32, _mm512_dpwssd_epi32, _mm512_load_si512, _mm512_set1_epi32,
    _mm512_setzero_si512, _mm512_store_si512,
};

use super::dot::{Lanes, MAXIMUM_DIGITS, Tile, WordForm};

/// Pixels of a full tile, by digits per value: with two panels, at most 24 of the 32 registers hold sums.
pub(super) const PIXELS_PER_TILE: [usize; MAXIMUM_DIGITS] = [8, 6, 4, 3, 2, 2, 1, 1];

/// Computes a tile.
///
/// # Safety
/// The processor has AVX-512 F and VNNI; every word that the tile's segments name lies inside its slices; the sums
/// are as many as the tile has.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn run(form: WordForm, tile: &Tile<'_>, sums: &mut [Lanes]) {
    macro_rules! choose {
        ($(($digits:literal, $pixels:literal)),*) => {
            match (form, tile.digits, tile.pixels.len(), tile.panels.len()) {
                $(
                    (WordForm::Bytes, $digits, $pixels, 1) => multiply::<true, $digits, $pixels, 1>,
                    (WordForm::Bytes, $digits, $pixels, 2) => multiply::<true, $digits, $pixels, 2>,
                    (WordForm::Halves, $digits, $pixels, 1) => multiply::<false, $digits, $pixels, 1>,
                    (WordForm::Halves, $digits, $pixels, 2) => multiply::<false, $digits, $pixels, 2>,
                )*
                _ => unreachable!("tiles have one pixel or as many as PIXELS_PER_TILE says"),
            }
        };
    }
    #[rustfmt::skip]
    let multiply: unsafe fn(&Tile<'_>, &mut [Lanes]) = choose!(
        (1, 1), (1, 8), (2, 1), (2, 6), (3, 1), (3, 4), (4, 1), (4, 3), (5, 1), (5, 2), (6, 1), (6, 2), (7, 1), (8, 1)
    );
    // SAFETY: the caller's promises, and the const parameters are the tile's own counts.
    unsafe { multiply(tile, sums) }
}

/// # Safety
/// As for [`run`]; the const parameters are the tile's counts.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[allow(clippy::needless_range_loop, reason = "loops with constant bounds keep the sums in registers")]
unsafe fn multiply<const BYTES: bool, const DIGITS: usize, const PIXELS: usize, const PANELS: usize>(
    tile: &Tile<'_>,
    sums: &mut [Lanes],
) {
    let mut accumulators = [[[_mm512_setzero_si512(); DIGITS]; PIXELS]; PANELS];
    let mut panels: [*const Lanes; PANELS] = std::array::from_fn(|panel| tile.panels[panel].as_ptr());
    for segment in tile.segments {
        let mut pixels: [*const u32; PIXELS] = std::array::from_fn(|pixel| {
            // SAFETY: the segment of each pixel lies inside the input.
            unsafe { tile.input.as_ptr().add(tile.pixels[pixel] + segment.offset) }
        });
        for _ in 0..segment.steps {
            // SAFETY: each step reads one row of each panel and DIGITS words of each pixel; the caller promised
            // that the segments' steps lie inside both. `Lanes` is aligned to 64 bytes.
            unsafe {
                let weights: [__m512i; PANELS] =
                    std::array::from_fn(|panel| _mm512_load_si512(panels[panel].cast()));
                for pixel in 0..PIXELS {
                    for digit in 0..DIGITS {
                        let digits = _mm512_set1_epi32((*pixels[pixel].add(digit)).cast_signed());
                        for panel in 0..PANELS {
                            let sum = &mut accumulators[panel][pixel][digit];
                            *sum = if BYTES {
                                _mm512_dpbusd_epi32(*sum, digits, weights[panel])
                            } else {
                                _mm512_dpwssd_epi32(*sum, digits, weights[panel])
                            };
                        }
                    }
                    pixels[pixel] = pixels[pixel].add(DIGITS);
                }
                for panel in &mut panels {
                    *panel = panel.add(1);
                }
            }
        }
    }
    assert_eq!(sums.len(), PANELS * PIXELS * DIGITS);
    for panel in 0..PANELS {
        for pixel in 0..PIXELS {
            for digit in 0..DIGITS {
                let sum = &mut sums[(panel * PIXELS + pixel) * DIGITS + digit];
                // SAFETY: `Lanes` is 64 bytes long and aligned to as many.
                unsafe {
                    _mm512_store_si512(std::ptr::from_mut(sum).cast(), accumulators[panel][pixel][digit]);
                }
            }
        }
    }
}
