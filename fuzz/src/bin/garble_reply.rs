//! The evaluator's reply: the server refuses wrong lengths and padding, and unmasks anything else.
#![no_main]

use std::sync::Arc;

use crypto::cpu::CpuFeatures;
use crypto::garble::Workspace;
use crypto::garble::garbler::PreparedGarbler;
use crypto::garble::label::Offset;
use crypto::garble::messages::Reply;
use crypto::garble::relu::{ReluForm, ReluShape, Rounding};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [lanes, output_bits, reply @ ..] = data else { return };
    let (lanes, output_bits) = (usize::from(*lanes), u32::from(*output_bits));
    for form in [ReluForm::Projection, ReluForm::AndOnly] {
        let Ok(shape) = ReluShape::new(3, 0, output_bits, Rounding::Floor, form) else { return };
        let circuit = Arc::new(shape.circuit());
        let decoded = Reply::from_bytes(&circuit, lanes, reply.to_vec());
        assert_eq!(decoded.is_ok(), (1..=64).contains(&lanes) && reply.len() == circuit.reply_bytes(lanes));
        let Ok(reply) = decoded else { return };
        let stored = vec![0; PreparedGarbler::stored_bytes(&circuit, lanes)];
        let prepared = PreparedGarbler::from_bytes(&circuit, lanes, &stored).expect("stored material");
        let offset = Offset::new(1).expect("an odd offset");
        let mut workspace = Workspace::new(CpuFeatures::available());
        let (_, waiting) =
            prepared.encode(&offset, &vec![1; lanes], &mut workspace).expect("values of the chunk");
        if let Ok(shares) = waiting.finish(reply) {
            assert_eq!(shares.expose().len(), lanes);
        }
    }
});
