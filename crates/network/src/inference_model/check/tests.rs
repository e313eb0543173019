use super::*;
use crate::inference_model::{ImageFormat, WeightBits};
use crate::mask::Bits;
use crate::walk::{Part, Place};

fn step(
    operation: ModelOperation,
    inputs: &[usize],
    shape: Shape,
    fraction: u32,
    ring_bits: u32,
) -> ModelStep {
    ModelStep {
        name: "step".into(),
        place: Place { part: Part::Stem, block: None },
        operation,
        inputs: inputs.iter().copied().map(ValueId).collect(),
        shape,
        fraction,
        ring_bits,
    }
}

fn conv(inputs: usize, outputs: usize) -> ConvGeometry {
    ConvGeometry { inputs, outputs, filter: 3, stride: 1, padding: 1, dilation: 1, groups: 1, bias: true }
}

/// Convolution, ReLU, sum with a skip, pooling, fully connected layer.
fn good() -> ModelOutline {
    let map = Shape::new(3, 4, 4);
    let geometry = LinearGeometry::Conv(conv(3, 3));
    let dense = LinearGeometry::FullyConnected { inputs: 3, outputs: 2 };
    let steps = vec![
        step(ModelOperation::Linear { geometry, channel_shifts: vec![0, 1, 0] }, &[0], map, 13, 20),
        step(
            ModelOperation::Activate { width: 20, shift: 7, ceiling: Some(100), mask: SiteMask::KeepAll },
            &[1],
            map,
            6,
            22,
        ),
        step(ModelOperation::Add { shifts: vec![0, 0] }, &[2, 0], map, 6, 22),
        step(ModelOperation::GlobalSum, &[3], Shape::vector(3), 10, 22),
        step(
            ModelOperation::Linear { geometry: dense, channel_shifts: vec![0; 2] },
            &[4],
            Shape::vector(2),
            17,
            22,
        ),
    ];
    ModelOutline {
        name: "good".into(),
        input: map,
        image: ImageFormat { fraction: 6, mean: vec![0.5; 3], deviation: vec![0.25; 3] },
        classes: 2,
        class_names: vec!["cat".into(), "dog".into()],
        weight_bits: WeightBits::Eight,
        logit_drop: 4,
        steps,
        image_ring_bits: 22,
    }
}

fn refusal(change: impl FnOnce(&mut ModelOutline)) -> String {
    let mut outline = good();
    change(&mut outline);
    outline.check().unwrap_err().to_string()
}

fn step_refusal(index: usize, operation: ModelOperation) -> String {
    refusal(|outline| outline.steps[index].operation = operation)
}

#[test]
fn a_good_outline_is_accepted() {
    assert_eq!(good().check(), Ok(()));
}

#[test]
fn a_frame_that_makes_no_sense_is_refused() {
    assert!(refusal(|outline| outline.steps.clear()).contains("0 steps"));
    assert!(refusal(|outline| outline.name = "x".repeat(600)).contains("600 bytes"));
    assert!(refusal(|outline| outline.input.height = 0).contains("3x0x4"));
    assert!(refusal(|outline| outline.image.mean.truncate(2)).contains("2 channels, the image has 3"));
    assert!(refusal(|outline| outline.image.deviation[1] = 0.0).contains("deviations positive"));
    assert!(refusal(|outline| outline.image.mean[1] = f32::NAN).contains("means must be finite"));
    assert!(refusal(|outline| outline.image.fraction = 40).contains("40 fraction"));
    assert!(refusal(|outline| outline.image_ring_bits = 63).contains("63 bits"));
    assert!(refusal(|outline| outline.classes = 3).contains("3 classes promised"));
    assert!(refusal(|outline| outline.logit_drop = 22).contains("22 bits of the logits are dropped, of 22"));
}

#[test]
fn classes_all_have_names_that_can_be_shown_or_none_has() {
    let with_names = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        ModelOutline { class_names: names, ..good() }.check()
    };
    assert_eq!(with_names(&[]), Ok(()));
    assert_eq!(with_names(&["Katze", "ねこ"]), Ok(()));
    let refusal = |names: &[&str]| with_names(names).unwrap_err().to_string();
    assert!(refusal(&["cat"]).contains("1 class names; expected one for each of 2 classes, or none"));
    assert!(refusal(&["a", "b", "c"]).contains("3 class names"));
    assert!(refusal(&["cat", ""]).contains("the name of class 1 has 0 bytes"));
    assert!(refusal(&[&"x".repeat(129), "dog"]).contains("the name of class 0 has 129 bytes"));
    assert!(refusal(&["cat", "dog\x1b[2J"]).contains("no control characters"));
}

#[test]
fn inputs_must_come_before_their_use() {
    assert!(
        refusal(|outline| outline.steps[0].inputs = vec![ValueId(1)]).contains("value 1; only values 0 to 0")
    );
    assert!(refusal(|outline| outline.steps[0].inputs.clear()).contains("0 inputs"));
    assert!(refusal(|outline| outline.steps[1].inputs = vec![ValueId(0); 2]).contains("2 inputs"));
    assert!(refusal(|outline| outline.steps[2].inputs = vec![ValueId(0); 5000]).contains("5000 inputs"));
}

#[test]
fn shapes_are_computed_and_compared() {
    let message = refusal(|outline| outline.steps[0].shape.height = 5);
    assert_eq!(message, "step 0 (step): it states 3x5x4, its operation makes 3x4x4");
    let linear =
        |conv| ModelOperation::Linear { geometry: LinearGeometry::Conv(conv), channel_shifts: vec![0; 3] };
    let odd = [
        (ConvGeometry { inputs: 4, ..conv(3, 3) }, "input channels 4"),
        (ConvGeometry { groups: 0, ..conv(3, 3) }, "groups 0"),
        (ConvGeometry { groups: 2, ..conv(3, 3) }, "groups 2"),
        (ConvGeometry { filter: 0, ..conv(3, 3) }, "filter 0"),
        (ConvGeometry { stride: 0, ..conv(3, 3) }, "stride 0"),
        (ConvGeometry { filter: 9, ..conv(3, 3) }, "span 9"),
        (ConvGeometry { dilation: usize::MAX, ..conv(3, 3) }, "dilation"),
        (ConvGeometry { padding: usize::MAX, ..conv(3, 3) }, "padding"),
    ];
    for (conv, expected) in odd {
        let message = step_refusal(0, linear(conv));
        assert!(message.contains(expected), "{message}");
    }
    let short =
        ModelOperation::Linear { geometry: LinearGeometry::Conv(conv(3, 3)), channel_shifts: vec![0; 2] };
    assert!(step_refusal(0, short).contains("2 channel shifts, expected are 3"));
    let dense = LinearGeometry::FullyConnected { inputs: 4, outputs: 2 };
    let wide = ModelOperation::Linear { geometry: dense, channel_shifts: vec![0; 2] };
    assert!(step_refusal(4, wide).contains("inputs 4"));
    assert!(step_refusal(2, ModelOperation::Add { shifts: vec![0] }).contains("1 shifts, expected are 2"));
    assert!(step_refusal(2, ModelOperation::Concat { shifts: vec![0; 2] }).contains("makes 6x4x4"));
    assert!(
        step_refusal(1, ModelOperation::Slice { start: 1, channels: usize::MAX }).contains("channels from 1")
    );
    assert!(step_refusal(1, ModelOperation::DropFirstRowAndColumn).contains("makes 3x3x3"));
    assert!(
        step_refusal(1, ModelOperation::ScalePixels { factors: vec![1] })
            .contains("1 factors, expected are 16")
    );
    let pool = |window, stride, padding| Pool { window, stride, padding, count_padding: false };
    assert!(step_refusal(1, ModelOperation::SumPool(pool(0, 1, 0))).contains("window 0"));
    assert!(step_refusal(1, ModelOperation::SumPool(pool(2, 0, 0))).contains("stride 0"));
    assert!(step_refusal(1, ModelOperation::SumPool(pool(2, 2, 2))).contains("padding 2"));
    assert!(step_refusal(1, ModelOperation::SumPool(pool(9, 1, 0))).contains("span 9"));
    let mask = SiteMask::Channels(Bits::collect([true; 4]));
    let masked = ModelOperation::Activate { width: 20, shift: 7, ceiling: None, mask };
    assert!(step_refusal(1, masked).contains("4 mask bits, expected are 3"));
}

#[test]
fn gates_that_make_no_sense_are_refused() {
    type Change = dyn Fn(&mut Gate);
    let good = Gate {
        width: 19,
        shift: 7,
        groups: vec![vec![2, 0], vec![1]],
        slope_bits: 4,
        slopes: vec![3, 0, -5],
        mask: SiteMask::KeepAll,
    };
    let with = |change: &Change| {
        let mut gate = good.clone();
        change(&mut gate);
        let mut outline = super::tests::good();
        // Slopes add their fraction bits, which the sum behind the gate has to align.
        outline.steps[1].fraction = 6 + gate.slope_bits;
        outline.steps[2].fraction = 6 + gate.slope_bits;
        outline.steps[2].operation = ModelOperation::Add { shifts: vec![0, gate.slope_bits as u8] };
        outline.steps[1].operation = ModelOperation::Gate(gate);
        outline.check().map_err(|error| error.to_string())
    };
    assert_eq!(with(&|_| {}), Ok(()));
    assert_eq!(with(&|gate| gate.mask = SiteMask::Channels(Bits::collect([true, false]))), Ok(()));
    let cases: [(&Change, &str); 10] = [
        (&|gate| gate.groups[0] = vec![0], "channel 2 stands in 0 groups"),
        (&|gate| gate.groups[0] = vec![2, 1], "channel 0 stands in 0 groups"),
        (&|gate| gate.groups[1] = vec![1, 2], "channel 2 stands in 2 groups"),
        (&|gate| gate.groups[1] = vec![1, 3], "a group names channel 3; the input has channels 0 to 2"),
        (&|gate| gate.groups.push(Vec::new()), "a group of shared signs is empty"),
        (&|gate| gate.groups.push(vec![0; 65]), "a group has 65 channels; at most 64"),
        (&|gate| gate.slopes = vec![1], "it has 1 slopes, expected are 3"),
        (&|gate| gate.slope_bits = 5, "its slopes have 5 fraction bits"),
        (
            &|gate| gate.mask = SiteMask::Channels(Bits::collect([true; 3])),
            "it has 3 mask bits, expected are 2",
        ),
        (&|gate| gate.width = 20, "ring"),
    ];
    for (change, expected) in cases {
        let message = with(change).unwrap_err();
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let message = with(&|gate| gate.slopes.clear()).unwrap_err();
    assert!(message.contains("4 fraction bits; with slopes at most 4, without none"), "{message}");
}

#[test]
fn scales_must_follow_from_the_operations() {
    assert!(
        refusal(|outline| outline.steps[1].fraction = 7)
            .contains("states 7 fraction bits, its operation makes 6")
    );
    assert!(step_refusal(2, ModelOperation::Add { shifts: vec![0, 1] }).contains("makes 7"));
    assert!(refusal(|outline| outline.steps[3].fraction = 5).contains("makes 6"));
    assert!(refusal(|outline| outline.steps[4].fraction = 400).contains("400 fraction bits"));
}

#[test]
fn rings_must_hold_what_their_readers_need() {
    assert!(
        refusal(|outline| outline.steps[0].ring_bits = 19).contains("ring of 19 bits, this step needs 20")
    );
    assert!(
        refusal(|outline| outline.steps[3].ring_bits = 21).contains("ring of 21 bits, this step needs 22")
    );
    assert!(refusal(|outline| outline.steps[4].ring_bits = 0).contains("ring has 0 bits"));
    assert!(refusal(|outline| outline.steps[4].ring_bits = 70).contains("ring has 70 bits"));
    let activate = |width, shift, ceiling, mask| ModelOperation::Activate { width, shift, ceiling, mask };
    let dropped = SiteMask::Channels(Bits::collect([true, false, true]));
    assert!(step_refusal(1, activate(20, 7, None, dropped)).contains("this step needs 21"));
    for width in [7, 8] {
        assert!(step_refusal(1, activate(width, 7, None, SiteMask::KeepAll)).contains("shift of 7"));
    }
    let mut two_left = good();
    two_left.steps[1].operation = activate(9, 7, None, SiteMask::KeepAll);
    assert_eq!(two_left.check(), Ok(()));
    assert!(step_refusal(1, activate(20, 7, Some(1 << 12), SiteMask::KeepAll)).contains("ceiling 4096"));
    // No shift of a ceiling by more bits than it has.
    for width in [63, 72, u32::MAX] {
        let words = step_refusal(1, activate(width, 7, Some(100), SiteMask::KeepAll));
        assert!(words.contains(&format!("compares values of {width} bits")), "{words}");
    }
    assert!(step_refusal(1, activate(62, 7, None, SiteMask::DropAll)).contains("needs 63"));
    let pool = Pool::new(1, 1);
    let maximum = ModelOperation::Maximum { pool, width: 23 };
    let message = refusal(|outline| {
        outline.steps[1].operation = maximum;
        outline.steps[1].fraction = 13;
    });
    assert!(message.contains("needs 23"), "{message}");
}

#[test]
fn huge_values_are_refused() {
    let dense = LinearGeometry::FullyConnected { inputs: 3, outputs: 1 << 16 };
    let message = refusal(|outline| {
        outline.steps[4].operation =
            ModelOperation::Linear { geometry: dense, channel_shifts: vec![0; 1 << 16] };
        outline.steps[4].shape = Shape::vector(1 << 16);
    });
    assert!(message.contains("ends at 65536x1x1"), "{message}");
    let message = refusal(|outline| outline.input = Shape::new(65_536, 4096, 4096));
    assert!(message.contains("images of 65536x4096x4096"), "{message}");
}
