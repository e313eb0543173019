//! SNL (Cho et al., ICML 2022).

use super::check::{Row, assert_printed};
use sordino_network::cost::Cost;
use sordino_network::transform::drop_stem_relus;

#[test]
fn section_4_baselines() {
    // SNL's ResNet18 has no ReLU after the stem.
    let resnet = Cost::of(&drop_stem_relus(&Row::new("resnet18", 32).build()).unwrap());
    assert_eq!(resnet.relus, 491_520);
    assert_printed("ResNet18", resnet.relus, "492K".into());
    assert_eq!(Row::new("wrn-22x8:final-relu=no", 32).cost().relus, 1_359_872);
}
