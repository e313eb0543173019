//! Any bytes as a client's encrypted blinds: refused, or read and written back unchanged.
#![no_main]

use std::sync::LazyLock;

use crypto::he::{ConvolutionShape, HeOutline, HeParameters, Layout, LinearRequest, LinearShape, WeightBits};
use libfuzzer_sys::fuzz_target;

static LAYOUT: LazyLock<Layout> = LazyLock::new(|| {
    let shape = LinearShape::Convolution(ConvolutionShape::same(3, 3, 5, 3));
    let outline = HeOutline::from_layers(32, WeightBits::Eight, vec![shape]);
    let parameters = HeParameters::from_outline(&outline).expect("a small layer");
    Layout::new(&parameters, &shape).expect("announced")
});

fuzz_target!(|data: &[u8]| {
    let _ = LinearRequest::from_bytes(&LAYOUT, data);
    if data.is_empty() {
        return;
    }
    let bytes: Vec<u8> = data.iter().copied().cycle().take(LinearRequest::length(&LAYOUT)).collect();
    if let Ok(request) = LinearRequest::from_bytes(&LAYOUT, &bytes) {
        assert!(request.to_bytes(&LAYOUT) == bytes);
    }
});
