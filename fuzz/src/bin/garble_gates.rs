//! Messages and stored material of gates: wrong lengths and padding are refused, anything else is used without a panic and
//! stored as it was.
#![no_main]

use crypto::garble::gates::{AdvancedGates, GateShape, PreparedGates};
use libfuzzer_sys::fuzz_target;

fn shape(bytes: [u8; 4]) -> Option<GateShape> {
    let [width, fraction_bits, output_bits, values] = bytes;
    let shape = GateShape::new(width.into(), fraction_bits.into(), output_bits.into()).ok()?;
    let shape = shape.with_values_per_sign((values & 0x7f).into()).ok()?;
    if values >> 7 == 1 { shape.with_slopes(4).ok() } else { Some(shape) }
}

fuzz_target!(|data: &[u8]| {
    let Some(([choices @ .., signs], message)) = data.split_first_chunk::<5>() else { return };
    let (Some(shape), signs) = (shape(*choices.first_chunk().expect("four bytes")), usize::from(*signs))
    else {
        return;
    };
    if signs == 0 {
        return;
    }
    if let Ok(prepared) = PreparedGates::from_bytes(&shape, signs, message) {
        assert_eq!(prepared.into_bytes().expose(), message);
    }
    if let Ok(advanced) = AdvancedGates::from_bytes(&shape, signs, message) {
        assert_eq!(advanced.into_bytes().expose(), message);
    }
    let slopes = vec![5; if shape.slope_bits().is_some() { signs * shape.values_per_sign() } else { 0 }];
    let own = vec![0x5a; PreparedGates::stored_bytes(&shape, signs)];
    if let Ok(prepared) = PreparedGates::from_bytes(&shape, signs, &own) {
        let mut reply = Vec::new();
        let result = prepared.reply(message, &slopes, &mut reply);
        assert!(result.is_err() || reply.len() == shape.reply_bytes(signs));
    }
    let zeros = vec![0; AdvancedGates::stored_bytes(&shape, signs)];
    let advanced = AdvancedGates::from_bytes(&shape, signs, &zeros).expect("zeros have no padding");
    let shares = vec![7; signs * shape.values_per_sign()];
    let waiting = advanced.open(&shares, &slopes, &mut Vec::new()).expect("a share for each value");
    if let Ok(made) = waiting.finish(message) {
        assert_eq!((made.expose().len(), message.len()), (shares.len(), shape.reply_bytes(signs)));
    }
});
