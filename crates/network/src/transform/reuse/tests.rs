use super::*;
use crate::cost::Cost;
use crate::transform::{Reduction, ThinChoice, cull_stage, drop_stem_relus, thin_stage};
use crate::walk::Operation;
use crate::zoo;

const LAYOUTS: [ReuseLayout; 3] = [ReuseLayout::Three, ReuseLayout::Equal, ReuseLayout::EqualShortcut];

fn reused(spec: &NetworkSpec, factor: usize, layout: ReuseLayout, scope: ReuseScope) -> NetworkSpec {
    reuse_relus(spec, Reuse { factor, layout, scope }).unwrap()
}

#[test]
fn on_all_layers_every_relu_shrinks_by_the_factor() {
    for name in [
        "resnet18",
        "resnet6",
        "hrn-4x4x4x:m=16",
        "wrn-16x8",
        "mobilenetv1",
        "mobilenetv2:clip=yes",
        "vgg16",
        "sphynx:c=16,d=5",
        "darts:c=4,d=4",
    ] {
        let spec = zoo::build(name, 32, 100).unwrap();
        let stages = |spec: &NetworkSpec| Cost::of(spec).relus - Cost::by_part(spec).last().unwrap().1.relus;
        for layout in LAYOUTS {
            let after = reused(&spec, 4, layout, ReuseScope::All);
            assert_eq!(stages(&after) * 4, stages(&spec), "{name} {layout:?}");
        }
    }
}

#[test]
fn the_work_of_a_module_is_that_of_its_drawing() {
    // One block of 16 channels on 8x8 pixels; the ReLU inside and the 3x3 convolution after it are replaced.
    let spec = zoo::build("resnet10:m=16", 8, 10).unwrap();
    let conv = |spec: &NetworkSpec| -> u64 {
        let walk = spec.walk();
        let second =
            |name: &str| name.starts_with("stage1.block1.body") && name != "stage1.block1.body.conv1";
        walk.steps().iter().filter(|step| second(&step.name)).map(|step| Cost::of_step(walk, step).macs).sum()
    };
    assert_eq!(conv(&spec), 64 * 9 * 16 * 16);
    let work = |factor, layout| conv(&reused(&spec, factor, layout, ReuseScope::Block));
    // Groups of 4, 8 and 4: two 3x3 convolutions, the 1x1 adapter from 8 to 4, the mixing 1x1 of 16.
    assert_eq!(work(4, LAYOUTS[0]), 64 * (9 * (8 * 8 + 4 * 4) + 8 * 4 + 16 * 16));
    // Groups of 4, 10 and 2.
    assert_eq!(work(8, LAYOUTS[0]), 64 * (9 * (10 * 10 + 2 * 2) + 10 * 2 + 16 * 16));
    // Four groups of 4, of which three are convolved; a shortcut costs no multiply-add.
    assert_eq!(work(4, LAYOUTS[1]), 64 * (9 * 3 * 4 * 4 + 16 * 16));
    assert_eq!(work(4, LAYOUTS[2]), work(4, LAYOUTS[1]));
}

#[test]
fn on_thinned_networks_both_scopes_give_the_same_modules() {
    let all = |spec: &NetworkSpec| {
        let stages = (1..=spec.stage_count()).map(StageIndex);
        let spec = drop_stem_relus(spec).unwrap();
        stages.fold(spec, |spec, stage| thin_stage(&spec, stage, ThinChoice::AfterSum).unwrap())
    };
    for name in ["resnet18", "hrn-2x5x3x:m=16", "wrn-16x8"] {
        let thinned = all(&zoo::build(name, 32, 100).unwrap());
        for layout in LAYOUTS {
            let inner = reused(&thinned, 4, layout, ReuseScope::Block);
            assert_eq!(reused(&thinned, 4, layout, ReuseScope::All), inner, "{name} {layout:?}");
        }
    }
}

#[test]
fn pre_activation_blocks_have_modules_in_every_layout() {
    let spec = zoo::build("wrn-16x8", 32, 100).unwrap();
    let work = |layout| Cost::of(&reused(&spec, 4, layout, ReuseScope::All)).macs;
    assert!(work(LAYOUTS[0]) != work(LAYOUTS[1]));
    assert_eq!(work(LAYOUTS[1]), work(LAYOUTS[2]));
    assert!(work(LAYOUTS[1]) < Cost::of(&spec).macs / 2, "most convolutions became modules");
}

#[test]
fn all_layouts_have_the_same_relus_and_other_work() {
    let spec = zoo::build("resnet18", 32, 100).unwrap();
    let costs = LAYOUTS.map(|layout| Cost::of(&reused(&spec, 8, layout, ReuseScope::Block)));
    assert!(costs.iter().all(|cost| cost.relus == costs[0].relus));
    assert!(costs[0].macs != costs[1].macs);
    assert_eq!(costs[1].macs, costs[2].macs, "an identity shortcut costs no multiply-add");
}

/// A block of two convolutions, the second dilated and with a bias, and clipped ReLUs.
const CLIPPED: &str = r#"
    name = "clipped"
    classes = 10
    input = { channels = 8, height = 8, width = 8 }
    head = ["global_average_pool", "classifier"]
    [[stages]]
    [[stages.blocks]]
    [stages.blocks.residual]
    body = [{ conv = { out = 8, filter = 3 } }, "relu6", { conv = { out = 8, filter = 3, dilation = 2, bias = true } }]
    after_sum = ["relu6"]
"#;

#[test]
fn dilation_bias_and_clipping_survive() {
    let spec = NetworkSpec::from_toml(CLIPPED).unwrap();
    for (scope, plain_3x3) in [(ReuseScope::Block, 1), (ReuseScope::All, 2)] {
        let after = reused(&spec, 4, ReuseLayout::Three, scope);
        let convs: Vec<_> = after
            .walk()
            .steps()
            .iter()
            .filter_map(|step| match &step.operation {
                Operation::Conv(conv) => Some((conv.filter, conv.dilation, conv.bias)),
                Operation::Relu { ceiling, .. } => {
                    assert_eq!(*ceiling, Some(6));
                    None
                }
                _ => None,
            })
            .collect();
        let count = |wanted| convs.iter().filter(|conv| **conv == wanted).count();
        assert_eq!(count((3, 2, false)), 2, "{convs:?}");
        assert_eq!(count((1, 1, true)), 1, "{convs:?}");
        assert_eq!(count((3, 1, false)), plain_3x3, "{convs:?}");
    }
}

#[test]
fn nested_relus_take_part() {
    let branches = r#"{ branches = { join = "sum", branches = [["relu6"], []] } }"#;
    let text = CLIPPED.replace("after_sum = [\"relu6\"]", &format!("after_sum = [{branches}]"));
    let spec = NetworkSpec::from_toml(&text).unwrap();
    let after = reused(&spec, 4, ReuseLayout::Three, ReuseScope::All);
    assert_eq!(Cost::of(&after).relus * 4, Cost::of(&spec).relus);
}

#[test]
fn a_narrow_first_convolution_stays_dense() {
    let narrow = CLIPPED.replace("body = [{ conv = { out = 8", "body = [{ conv = { out = 4");
    let spec = NetworkSpec::from_toml(&narrow).unwrap();
    let after = reused(&spec, 4, ReuseLayout::Three, ReuseScope::All);
    assert_eq!(Cost::of(&after).relus * 4, Cost::of(&spec).relus);
    assert_eq!(Cost::of(&after).macs, Cost::of(&spec).macs);
}

#[test]
fn a_network_where_nothing_changes_is_refused() {
    let resnet6 = zoo::build("resnet6", 32, 100).unwrap();
    let error = reuse_relus(&resnet6, Reuse::new(4)).unwrap_err();
    assert_eq!(error, TransformError::NothingToReuse { network: "resnet6".to_owned() });
    let spec = zoo::build("resnet18", 32, 100).unwrap();
    let culled = (1..=4).fold(spec, |spec, stage| cull_stage(&spec, StageIndex(stage)).unwrap());
    assert!(matches!(reuse_relus(&culled, Reuse::new(4)), Err(TransformError::NothingToReuse { .. })));
}

#[test]
fn what_cannot_be_reused_is_refused_with_its_place() {
    for name in ["mobilenetv2", "darts", "sphynx"] {
        let spec = zoo::build(name, 32, 100).unwrap();
        let error = reuse_relus(&spec, Reuse::new(4)).unwrap_err().to_string();
        assert!(error.starts_with("stage 1, block 1 cannot reuse ReLUs"), "{name}: {error}");
    }
    let shared = zoo::build("darts:c=4,d=4,share=yes", 32, 10).unwrap();
    let all = |factor| Reuse { scope: ReuseScope::All, ..Reuse::new(factor) };
    assert!(matches!(reuse_relus(&shared, all(4)), Err(TransformError::NotReusable { .. })));
    let spec = zoo::build("resnet18:m=30", 32, 100).unwrap();
    let error = reuse_relus(&spec, Reuse::new(4)).unwrap_err().to_string();
    assert_eq!(error, "stage 1, block 1 has 30 channels, which do not divide by 4");
    let error = reuse_relus(&spec, all(4)).unwrap_err().to_string();
    assert_eq!(error, "the stem has 30 channels, which do not divide by 4");
    for bad in [0, 1] {
        assert!(matches!(reuse_relus(&spec, Reuse::new(bad)), Err(TransformError::Factor { .. })));
    }
}

#[test]
fn a_reduction_reuses_what_it_left() {
    let spec = zoo::build("hrn-2x5x3x:m=16", 32, 100).unwrap();
    let stages = |numbers: &[usize]| numbers.iter().copied().map(StageIndex).collect();
    let reduction = Reduction {
        cull: stages(&[1]),
        thin: stages(&[2, 3, 4]),
        reuse: Some(Reuse::new(4)),
        ..Reduction::default()
    };
    assert_eq!(Cost::of(&reduction.apply(&spec).unwrap()).relus, 13_056);
}
