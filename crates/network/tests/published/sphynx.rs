//! Sphynx (Cho et al. 2022).

use super::check::Printed::{self, Cut, Rounded, Slip};
use super::check::{Row, assert_printed};
use sordino_network::cost::Cost;
use sordino_network::design::sphynx_choices;
use sordino_network::zoo;

fn assert_rows(table: &str, input: usize, rows: &[(&'static str, Printed)]) {
    for (network, printed) in rows {
        assert_printed(&format!("{table}, {network}"), Row::new(network, input).cost().relus, *printed);
    }
}

#[test]
fn table_1_cells_of_darts_and_pc_darts() {
    assert_rows(
        "Table 1",
        32,
        &[
            ("darts:c=36,d=20", Cut("7796K")),
            ("darts:c=5,d=10", Rounded("523.5K")),
            ("darts:c=5,d=5", Cut("231.6K")),
            ("darts:c=2,d=4", Rounded("73.2K")),
            ("darts:c=1,d=4", Rounded("36.6K")),
        ],
    );
    // Slip: for the published PC-DARTS cells every printed count is lower by exactly 1536 C, which is two ReLU maps
    // of each reduce cell at its output: one convolution between inner nodes was left out.
    for (channels, depth, paper, ours) in [
        (36, 20, "8073K", 8_128_512),
        (5, 10, "591.4K", 599_040),
        (5, 5, "314.9K", 322_560),
        (2, 4, "107.5K", 110_592),
        (1, 4, "53.8K", 55_296),
    ] {
        let spec = zoo::build(&format!("pc-darts:c={channels},d={depth}"), 32, 10).unwrap();
        let count = Cost::of(&spec).relus;
        let what = format!("Table 1, PC-DARTS c={channels} d={depth}");
        assert_printed(&what, count, Slip { paper, ours });
        assert_printed(&what, count - 1536 * channels, paper.into());
    }
}

#[test]
fn shared_relus_are_counted_by_hand() {
    // Images of 8x8 and two cells: a normal one with 1 channel (64 ReLUs a map), then a reduce cell with 2 channels
    // (128 a map at 8x8, 32 at 4x4). Both preprocess their inputs: 2 x 192 from the stem's 3 channels, then 192 and
    // 256 from the stem and the 4 channels of the first cell.
    let preprocessing = 2 * 192 + 192 + 256;
    // DARTS, normal: 5 pairs of separable convolutions and one dilated one, reading nodes 0, 1 and 2. Its reduce cell
    // has poolings and identities only.
    let darts = (preprocessing + (5 * 2 + 1) * 64, preprocessing + (5 + 3) * 64);
    // PC-DARTS, normal: 4 pairs and two dilated ones, reading nodes 0 and 1. Reduce: 7 pairs, 4 of which read nodes 0
    // and 1 at 8x8, 3 nodes 2 and 3 at 4x4; the second ReLU of a pair acts at 4x4.
    let pc_darts = (
        preprocessing + (4 * 2 + 2) * 64 + 4 * 128 + 3 * 32 + 7 * 32,
        preprocessing + (4 + 2) * 64 + 2 * 128 + 2 * 32 + 7 * 32,
    );
    for (name, (each, shared)) in [("darts", darts), ("pc-darts", pc_darts)] {
        for (share, expected) in [("no", each), ("yes", shared)] {
            let spec = zoo::build(&format!("{name}:c=1,d=2,reduce=1,share={share}"), 8, 10).unwrap();
            assert_eq!(Cost::of(&spec).relus, expected, "{name} share={share}");
        }
    }
}

#[test]
fn relu_sharing_saves_without_changing_the_work() {
    for name in ["darts", "pc-darts"] {
        let each = Cost::of(&zoo::build(name, 32, 10).unwrap());
        let shared = Cost::of(&zoo::build(&format!("{name}:share=yes"), 32, 10).unwrap());
        assert!(shared.relus < each.relus);
        assert_eq!(Cost { relus: 0, ..shared }, Cost { relus: 0, ..each });
    }
}

#[test]
fn table_9_channels_and_depths_for_fifty_thousand() {
    let choices = sphynx_choices(50_000, 32).unwrap();
    let printed = [(5, 10, "51.2K"), (6, 8, "49.2K"), (7, 7, "50.2K"), (8, 6, "49.2K"), (10, 5, "51.2K")];
    assert_eq!(choices.len(), printed.len());
    for (choice, (channels, depth, text)) in choices.into_iter().zip(printed) {
        assert_eq!((choice.channels, choice.depth), (channels, depth));
        let spec = zoo::build(&format!("sphynx:c={channels},d={depth}"), 32, 100).unwrap();
        assert_printed("Table 9", Cost::of(&spec).relus, text.into());
        assert_eq!(choice.relus, Cost::of(&spec).relus);
    }
}

#[test]
fn tables_10_and_11_relu_and_flop_balancing() {
    assert_rows(
        "Tables 10 and 11",
        32,
        &[
            ("sphynx:c=5,d=5,reduce=0+1", Rounded("25.6K")),
            ("sphynx:c=17,d=5,reduce=0+1,balance=flop", Rounded("26.1K")),
            ("sphynx:c=5,d=6,reduce=0+1", Slip { paper: "30.2K", ours: 30_720 }),
            ("sphynx:c=17,d=6,reduce=0+1,balance=flop", Cut("30.4K")),
            ("sphynx:c=5,d=8,reduce=1+3", Rounded("41.0K")),
            ("sphynx:c=12,d=8,reduce=1+3,balance=flop", Slip { paper: "41.4K", ours: 39_936 }),
            ("sphynx:c=5,d=10,reduce=0+5", Rounded("51.2K")),
            ("sphynx:c=14,d=10,reduce=0+5,balance=flop", Cut("53.7K")),
        ],
    );
}

#[test]
fn table_12_parameters_of_vanilla_and_separable_convolutions() {
    // The paper prints millions of 2^20.
    for (depth, vanilla, separable, printed) in [
        (5, 2_888_015, 373_395, (2.75, 0.35)),
        (6, 3_580_175, 459_315, (3.41, 0.43)),
        (8, 3_626_375, 467_265, (3.45, 0.45)),
    ] {
        let parameters = |conv: &str| {
            Cost::of(&zoo::build(&format!("sphynx:c=5,d={depth},conv={conv}"), 32, 100).unwrap()).parameters
        };
        assert_eq!(parameters("vanilla"), vanilla);
        assert_eq!(parameters("separable"), separable);
        for (count, printed) in [(vanilla, printed.0), (separable, printed.1)] {
            let millions = count as f64 / f64::from(1 << 20);
            assert!(millions - printed < 0.0101 && millions >= printed - 0.0051, "{millions} for {printed}");
        }
    }
}

#[test]
fn table_16_configurations_for_small_images() {
    assert_rows(
        "Table 16, CIFAR-100",
        32,
        &[
            ("sphynx:c=5,d=5", Rounded("25.6K")),
            ("sphynx:c=5,d=6", Slip { paper: "30.2K", ours: 30_720 }),
            ("sphynx:c=5,d=8", Rounded("41.0K")),
            ("sphynx:c=5,d=10", Rounded("51.2K")),
            ("sphynx:c=7,d=10", Rounded("71.7K")),
            ("sphynx:c=10,d=10", Rounded("102.4K")),
            ("sphynx:c=15,d=15", Slip { paper: "230.0K", ours: 230_400 }),
        ],
    );
    assert_rows(
        "Table 16, Tiny-ImageNet",
        64,
        &[
            ("sphynx:c=5,d=5", Rounded("102.4K")),
            ("sphynx:c=5,d=10", Rounded("204.8K")),
            ("sphynx:c=7,d=10", Rounded("286.7K")),
            ("sphynx:c=20,d=10", Rounded("819.2K")),
        ],
    );
}

#[test]
fn table_16_configurations_for_imagenet() {
    assert_rows(
        "Table 16, ImageNet",
        224,
        &[
            ("sphynx:c=10,d=10,stem=imagenet", Rounded("172K")),
            ("sphynx:c=20,d=10,stem=imagenet", Rounded("345K")),
            ("sphynx:c=30,d=10,stem=imagenet", Rounded("517K")),
            ("sphynx:c=40,d=10,stem=imagenet", Rounded("690K")),
            ("sphynx:c=50,d=10,stem=imagenet", Rounded("862K")),
            ("sphynx:c=60,d=10,stem=imagenet", Cut("1034K")),
            ("vgg11:c=4", Rounded("472K")),
            ("vgg11:c=8", Rounded("936K")),
            ("vgg11", Slip { paper: "7488K", ours: 7_434_240 }),
            ("resnet18:m=8,stem=imagenet", Cut("288K")),
            ("resnet18:m=16,stem=imagenet", Rounded("577K")),
            ("resnet18:m=32,stem=imagenet", Rounded("1154K")),
            ("resnet18:stem=imagenet", Rounded("2308K")),
        ],
    );
}

#[test]
fn table_15_configuration() {
    // Slip: "31.2K" is the 30,720 of (5, 6) again.
    assert_rows("Table 15", 32, &[("sphynx:c=5,d=6", Slip { paper: "31.2K", ours: 30_720 })]);
}
