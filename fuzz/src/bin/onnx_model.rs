//! An ONNX file: refused or imported, never a panic or a large allocation; what was imported can be run.
#![no_main]

use libfuzzer_sys::fuzz_target;
use network::cost::Cost;
use network::reference::float;
use network::walk::Network;
use onnx::{ExternalFiles, ImportOptions, import};

/// Scalars and multiply-adds that are computed within the time of one input.
const MAX_WORK: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let options = ImportOptions { side: None, ..ImportOptions::default() };
    let Ok(imported) = import(bytes, &ExternalFiles::none(), &options) else { return };
    let network = &imported.network;
    let walk = network.walk();
    assert!(walk.classes() >= 1);
    let scalars: u64 = walk.steps().iter().map(|step| walk.shape(step.output).scalars()).sum();
    if scalars + network.input().scalars() + Cost::of(network).macs <= MAX_WORK {
        let image = vec![0.5; network.input().scalars() as usize];
        let trace = float::run(network, network.weights(), None, &image).expect("an image of its size");
        assert_eq!(trace.logits().len(), walk.classes());
    }
});
