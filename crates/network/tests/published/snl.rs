//! SNL (Cho et al., ICML 2022).

use super::check::{Recipe, assert_printed, stage_relus};

#[test]
fn section_4_baselines() {
    // SNL's ResNet18 has no ReLU after the stem.
    let (_, stages) = stage_relus("resnet18", 32);
    assert_eq!(stages.iter().sum::<u64>(), 491_520);
    assert_printed("ResNet18", 491_520, "492K".into());
    assert_eq!(Recipe::new("wrn-22x8:final-relu=no", 32).cost().relus, 1_359_872);
}
