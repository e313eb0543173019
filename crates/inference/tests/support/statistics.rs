//! Tests that uniform bytes pass. Every score is about normal for uniform bytes; the limit of eight deviations is
//! passed by chance less than once in 10^14 times, far below the 10^-9 that these tests allow themselves.

/// Scores beyond this are no accident.
pub(crate) const LIMIT: f64 = 8.0;
/// With fewer bytes the scores mean little.
pub(crate) const FEW: usize = 160;

/// How far the histogram is from a flat one: of bytes, or of half bytes where there are few.
pub(crate) fn histogram_score(bytes: &[u8]) -> f64 {
    let counts = histogram(bytes);
    let expected = counts.iter().sum::<f64>() / counts.len() as f64;
    let distance = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
    chi_square_score(distance, counts.len() as f64 - 1.0)
}

/// How far two histograms of equally many bytes are from each other.
pub(crate) fn two_sample_score(first: &[u8], second: &[u8]) -> f64 {
    assert_eq!(first.len(), second.len(), "the length must not tell them apart either");
    let pairs: Vec<_> = histogram(first).into_iter().zip(histogram(second)).collect();
    let filled = pairs.iter().filter(|(one, other)| one + other > 0.0);
    let distance = filled.clone().map(|(one, other)| (one - other).powi(2) / (one + other)).sum();
    chi_square_score(distance, filled.count().max(2) as f64 - 1.0)
}

/// Correlation of each byte with the next.
pub(crate) fn serial_score(bytes: &[u8]) -> f64 {
    let values: Vec<f64> = bytes.iter().map(|byte| f64::from(*byte)).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let covariance: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    covariance / variance.max(1.0) * (values.len() as f64).sqrt()
}

/// Equal bytes at equal places of two messages that should have nothing in common; fewer than expected are no harm. The
/// tail of a small count is longer than a normal one, which the constant allows for.
pub(crate) fn repetition_score(first: &[u8], second: &[u8]) -> f64 {
    let equal = first.iter().zip(second).filter(|(one, other)| one == other).count() as f64;
    let mean = first.len() as f64 / 256.0;
    ((equal - mean - 8.0) / mean.max(1.0).sqrt()).max(0.0)
}

fn histogram(bytes: &[u8]) -> Vec<f64> {
    if bytes.len() < 10 * 256 {
        let mut counts = vec![0.0; 16];
        bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).for_each(|half| counts[half as usize] += 1.0);
        return counts;
    }
    let mut counts = vec![0.0; 256];
    bytes.iter().for_each(|byte| counts[*byte as usize] += 1.0);
    counts
}

/// Wilson and Hilferty: the cube root of a chi-square variable is nearly normal.
fn chi_square_score(distance: f64, freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    ((distance / freedom).cbrt() - 1.0 + spread) / spread.sqrt()
}
