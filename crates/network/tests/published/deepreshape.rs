//! DeepReShape (Jha and Reagen 2023). Its Stage1 includes the stem.

use super::check::Printed::{self, Cut, Rounded, Slip};
use super::check::{Row, assert_criticality, assert_macs, assert_printed, stage_relus};
use sordino_network::cost::Cost;
use sordino_network::design::stage_criticality;
use sordino_network::transform::{Reuse, ReuseLayout, reuse_relus};
use sordino_network::walk::Operation;
use sordino_network::zoo;

const S1: &[usize] = &[1];
const S234: &[usize] = &[2, 3, 4];
const ALL: &[usize] = &[1, 2, 3, 4];

fn assert_rows(table: &str, rows: &[(Row, Printed, f64)]) {
    for (index, (row, printed, millions)) in rows.iter().enumerate() {
        let what = format!("{table}, row {}", index + 1);
        let cost = row.cost();
        assert_printed(&what, cost.relus, *printed);
        assert_macs(&what, cost.macs, *millions);
    }
}

#[test]
fn table_1_work_per_relu_grows_with_channels_alone() {
    // Multiply-adds per ReLU: C f^2; weights per ReLU: C f^2 over the pixels of the map.
    for name in ["hrn-5x5x3x:m=16", "hrn-2x2x2x:m=16,depths=1+5+5+3"] {
        let spec = zoo::build(name, 32, 100).unwrap();
        let walk = spec.walk();
        for stage in 1..=4 {
            let step = walk
                .steps()
                .iter()
                .find(|step| step.name == format!("stage{stage}.block1.body.conv2"))
                .unwrap();
            let Operation::Conv(conv) = &step.operation else { panic!("a convolution") };
            let relus = walk.shape(step.output).scalars();
            let cost = Cost::of_step(walk, step);
            assert_eq!(cost.macs, relus * conv.outputs as u64 * 9, "{name} stage {stage}");
            assert_eq!(cost.parameters * walk.shape(step.output).pixels(), cost.macs);
        }
    }
}

#[test]
fn table_2_input_networks() {
    assert_rows(
        "Table 2",
        &[
            (Row::new("resnet32", 32), Rounded("303K"), 70.0),
            (Row::new("resnet18", 32), Rounded("557K"), 559.0),
            (Row::new("wrn-22x8", 32), Rounded("1393K"), 2461.0),
            (Row::new("vgg16", 32), Rounded("285K"), 333.0),
        ],
    );
}

#[test]
fn table_3_iso_relu_networks_with_other_distributions() {
    let rows = [
        ("hrn-2x2x2x:m=32", "279K", 141.0, [58.82, 23.53, 11.76, 5.88]),
        ("hrn-4x4x4x:m=16", "279K", 661.0, [29.41, 23.53, 23.53, 23.53]),
        ("hrn-3x7x2x:m=16", "260K", 466.0, [31.50, 18.90, 33.07, 16.54]),
    ];
    for (network, relus, millions, proportions) in rows {
        assert_rows("Table 3", &[(Row::new(network, 32), Rounded(relus), millions)]);
        let (stem, mut stages) = stage_relus(network, 32);
        stages[0] += stem;
        let total: u64 = stages.iter().sum();
        for (count, printed) in stages.into_iter().zip(proportions) {
            let percent = 100.0 * count as f64 / total as f64;
            assert!((percent - printed).abs() <= 0.0051, "Table 3, {network}: {percent} for {printed}");
        }
    }
}

#[test]
fn section_3_proportions_of_the_first_stage() {
    for (network, printed) in
        [("resnet18", 58.8), ("wrn-22x8", 48.2), ("wrn-16x8", 43.9), ("resnet34", 47.46)]
    {
        let (stem, stages) = stage_relus(network, 32);
        let total = Row::new(network, 32).cost().relus;
        let percent = 100.0 * (stem + stages[0]) as f64 / total as f64;
        assert!((percent - printed).abs() < 0.051, "{network}: {percent} for {printed}");
    }
    // Slip: 47.7% is printed for WRN-22x4. The first ReLU of stage 1 acts on 16 channels at any width, so it weighs
    // more than in WRN-22x8, and the proportion must be above the 48.2% of that.
    let (stem, stages) = stage_relus("wrn-22x4", 32);
    let percent = 100.0 * (stem + stages[0]) as f64 / Row::new("wrn-22x4", 32).cost().relus as f64;
    assert!((percent - 48.84).abs() < 0.0051, "WRN-22x4: {percent}");
}

const fn hrn(network: &'static str, input: usize, reuse: Option<usize>) -> Row {
    Row { cull: S1, thin: S234, reuse, ..Row::new(network, input) }
}

#[test]
fn table_5_pareto_points_on_cifar() {
    assert_rows(
        "Table 5",
        &[
            (Row { thin: ALL, ..Row::new("hrn-5x5x3x:m=16", 32) }, Rounded("163.3K"), 1055.4),
            (hrn("hrn-2x5x3x:m=32", 32, None), Rounded("104.4K"), 714.1),
            (hrn("hrn-2x5x3x:m=16", 32, None), Rounded("52.2K"), 178.5),
            (hrn("hrn-2x5x3x:m=8", 32, None), Rounded("26.1K"), 44.6),
            (hrn("hrn-2x5x3x:m=16", 32, Some(4)), Rounded("13.1K"), 121.6),
            (hrn("hrn-2x5x3x:m=16", 32, Some(8)), Rounded("6.5K"), 130.5),
            (hrn("hrn-2x5x3x:m=16", 32, Some(16)), Cut("3.2K"), 137.2),
        ],
    );
}

#[test]
fn table_11_pareto_points_on_tiny_imagenet() {
    assert_rows(
        "Table 11",
        &[
            (Row { thin: ALL, ..Row::new("hrn-5x5x3x:m=16", 64) }, Rounded("653.3K"), 4216.4),
            (hrn("hrn-2x5x3x:m=32", 64, None), Rounded("417.8K"), 2841.7),
            (Row { thin: ALL, ..Row::new("hrn-5x5x3x:m=8", 64) }, Cut("326.6K"), 1055.4),
            (hrn("hrn-2x5x3x:m=8", 64, None), Rounded("104.4K"), 178.9),
            (hrn("hrn-2x5x3x:m=16", 64, Some(4)), Rounded("52.2K"), 486.3),
        ],
    );
}

#[test]
fn table_12_pareto_points_on_resnet34_depths() {
    const LARGE: &str = "hrn-4x6x3x:m=16,base=resnet34";
    const SMALL: &str = "hrn-2x6x3x:m=16,base=resnet34";
    const HALF: &str = "hrn-2x6x3x:m=8,base=resnet34";
    assert_rows(
        "Table 12, CIFAR-100",
        &[
            (Row { thin: ALL, ..Row::new(LARGE, 32) }, Rounded("317.4K"), 2061.1),
            (hrn(SMALL, 32, None), Rounded("134.1K"), 527.4),
            (hrn(HALF, 32, None), Rounded("67.1K"), 132.2),
            (hrn(SMALL, 32, Some(4)), Rounded("33.5K"), 370.1),
            (hrn(SMALL, 32, Some(8)), Slip { paper: "16.6K", ours: 16_768 }, 394.8),
            (hrn(SMALL, 32, Some(16)), Cut("8.3K"), 413.4),
        ],
    );
    assert_rows(
        "Table 12, TinyImageNet",
        &[
            (Row { thin: ALL, ..Row::new(LARGE, 64) }, Rounded("1269.8K"), 8244.2),
            (Row { thin: ALL, ..Row::new("hrn-4x6x3x:m=12,base=resnet34", 64) }, Rounded("952K"), 4638.8),
            (hrn(SMALL, 64, None), Rounded("536.6K"), 2109.4),
            (hrn("hrn-2x6x3x:m=12,base=resnet34", 64, None), Rounded("402K"), 1187.5),
            (hrn(HALF, 64, None), Rounded("268.3K"), 528.6),
            (hrn(SMALL, 64, Some(4)), Rounded("134.1K"), 1480.1),
            (hrn(SMALL, 64, Some(8)), Rounded("67.1K"), 1579.2),
            (hrn(SMALL, 64, Some(16)), Rounded("33.5K"), 1653.5),
        ],
    );
}

#[test]
fn table_13_growth_of_work_and_relus_per_stage() {
    // One convolution of the blocks' interior, in units of 1/64 of the first stage.
    let rows = [
        ("2x2x2x", [64, 64, 64, 64], [64, 32, 16, 8]),
        ("3x3x3x", [64, 144, 324, 729], [64, 48, 36, 27]),
        ("4x4x4x", [64, 256, 1024, 4096], [64, 64, 64, 64]),
        ("6x6x6x", [64, 576, 5184, 46656], [64, 96, 144, 216]),
        ("5x7x2x", [64, 400, 4900, 4900], [64, 80, 140, 70]),
        ("7x5x2x", [64, 784, 4900, 4900], [64, 112, 140, 70]),
        ("6x6x2x", [64, 576, 5184, 5184], [64, 96, 144, 72]),
        ("5x5x3x", [64, 400, 2500, 5625], [64, 80, 100, 75]),
    ];
    for (factors, work, relus) in rows {
        let spec = zoo::build(&format!("hrn-{factors}:m=16"), 32, 100).unwrap();
        let walk = spec.walk();
        let of = |stage: usize| {
            let name = format!("stage{stage}.block2.body.conv2");
            let step = walk.steps().iter().find(|step| step.name == name).unwrap();
            (Cost::of_step(walk, step).macs, walk.shape(step.output).scalars())
        };
        let (base_work, base_relus) = of(1);
        for stage in 1..=4 {
            let (stage_work, stage_relus) = of(stage);
            assert_eq!(stage_work * 64, work[stage - 1] * base_work, "Table 13, {factors} stage {stage}");
            assert_eq!(stage_relus * 64, relus[stage - 1] * base_relus, "Table 13, {factors} stage {stage}");
        }
    }
}

#[test]
fn table_14_relu_reuse_on_alternate_layers() {
    let spec = zoo::build("resnet18", 32, 100).unwrap();
    let layouts = [ReuseLayout::Three, ReuseLayout::Equal, ReuseLayout::EqualShortcut];
    for (factor, printed) in [(2, "434.18K"), (4, "372.74K"), (8, "342.02K"), (16, "326.66K")] {
        for layout in layouts {
            let reused = reuse_relus(&spec, Reuse { layout, ..Reuse::new(factor) }).unwrap();
            assert_printed("Table 14", Cost::of(&reused).relus, printed.into());
        }
    }
}

#[test]
fn table_16_hybrenets_beside_their_rivals() {
    assert_rows(
        "Table 16",
        &[
            (Row::new("wrn-22x8", 32), Rounded("1393K"), 2461.0),
            (Row::new("resnet18", 32), Rounded("557K"), 559.0),
            (Row::new("hrn-5x5x3x:m=16", 32), Rounded("343K"), 1055.0),
            (Row::new("hrn-5x7x2x:m=16", 32), Rounded("379K"), 1273.0),
            (Row::new("hrn-6x6x2x:m=16", 32), Rounded("401K"), 1368.0),
            (Row::new("hrn-7x5x2x:m=16", 32), Rounded("412K"), 1328.0),
        ],
    );
}

/// Network, ReLUs per stage, accuracies with distillation, C_k.
type Criticality = (&'static str, [&'static str; 4], [f64; 4], [f64; 4]);

fn assert_criticality_rows(table: &str, rows: &[Criticality]) {
    for (network, printed, accuracies, criticalities) in rows {
        let (stem, mut stages) = stage_relus(network, 32);
        stages[0] += stem;
        for (stage, text) in stages.iter().zip(printed) {
            assert_printed(&format!("{table}, {network}"), *stage, Rounded(text));
        }
        for (computed, printed) in stage_criticality(accuracies, &stages).into_iter().zip(criticalities) {
            assert_criticality(&format!("{table}, {network}"), computed, *printed, 2);
        }
    }
}

#[test]
fn table_8_criticality_of_base_and_stage_widened_networks() {
    assert_criticality_rows("Table 8", TABLE_8);
}

#[test]
fn table_9_criticality_of_hybrenets() {
    assert_criticality_rows("Table 9", TABLE_9);
}

const TABLE_8: &[Criticality] = &[
    (
        "hrn-2x2x2x:m=16",
        ["81.92K", "32.77K", "16.38K", "8.19K"],
        [52.67, 62.10, 64.64, 59.70],
        [0.00, 7.39, 9.84, 6.07],
    ),
    (
        "hrn-2x2x2x:m=32",
        ["163.84K", "65.54K", "32.77K", "16.38K"],
        [60.19, 66.47, 67.28, 62.22],
        [0.00, 4.69, 5.55, 1.67],
    ),
    (
        "hrn-2x2x2x:m=64",
        ["327.68K", "131.07K", "65.54K", "32.77K"],
        [63.13, 68.32, 70.29, 63.47],
        [0.00, 3.69, 5.34, 0.27],
    ),
    (
        "hrn-2x2x2x:m=128",
        ["655.36K", "262.14K", "131.07K", "65.54K"],
        [64.15, 70.56, 72.04, 64.58],
        [0.00, 4.34, 5.61, 0.32],
    ),
    (
        "hrn-2x2x2x:m=256",
        ["1310.72K", "524.29K", "262.14K", "131.07K"],
        [65.22, 72.43, 73.77, 65.77],
        [0.00, 4.65, 5.79, 0.39],
    ),
    (
        "hrn-3x3x3x:m=16",
        ["81.92K", "49.15K", "36.86K", "27.65K"],
        [53.07, 65.67, 67.96, 63.43],
        [0.00, 9.59, 11.57, 8.21],
    ),
    (
        "hrn-4x4x4x:m=16",
        ["81.92K", "65.54K", "65.54K", "65.54K"],
        [52.20, 66.22, 69.16, 65.46],
        [0.00, 10.46, 12.66, 9.89],
    ),
    (
        "hrn-5x5x5x:m=16",
        ["81.92K", "81.92K", "102.40K", "128.00K"],
        [50.65, 66.63, 70.64, 65.43],
        [0.00, 11.74, 14.46, 10.52],
    ),
    (
        "hrn-6x6x6x:m=16",
        ["81.92K", "98.30K", "147.46K", "221.18K"],
        [51.53, 67.11, 72.09, 66.43],
        [0.00, 11.30, 14.49, 10.21],
    ),
    (
        "hrn-7x7x7x:m=16",
        ["81.92K", "114.69K", "200.70K", "351.23K"],
        [49.07, 67.89, 73.33, 67.88],
        [0.00, 13.50, 16.74, 12.48],
    ),
];

const TABLE_9: &[Criticality] = &[
    (
        "hrn-2x7x2x:m=16",
        ["81.92K", "32.77K", "57.34K", "28.67K"],
        [53.39, 61.59, 69.82, 63.40],
        [0.00, 6.42, 12.37, 7.91],
    ),
    (
        "hrn-3x7x2x:m=16",
        ["81.92K", "49.15K", "86.02K", "43.01K"],
        [53.29, 65.26, 70.77, 64.17],
        [0.00, 9.11, 12.80, 8.36],
    ),
    (
        "hrn-4x7x2x:m=16",
        ["81.92K", "65.54K", "114.69K", "57.34K"],
        [49.42, 66.47, 72.16, 64.77],
        [0.00, 12.72, 16.32, 11.56],
    ),
    (
        "hrn-5x7x2x:m=16",
        ["81.92K", "81.92K", "143.36K", "71.68K"],
        [48.36, 67.59, 72.18, 65.35],
        [0.00, 14.13, 16.83, 12.60],
    ),
    (
        "hrn-6x7x2x:m=16",
        ["81.92K", "98.30K", "172.03K", "86.02K"],
        [48.48, 68.06, 72.73, 65.75],
        [0.00, 14.20, 16.91, 12.64],
    ),
    (
        "hrn-7x7x2x:m=16",
        ["81.92K", "114.69K", "200.70K", "100.35K"],
        [52.40, 68.29, 73.16, 65.53],
        [0.00, 11.40, 14.32, 9.51],
    ),
    (
        "hrn-2x6x2x:m=16",
        ["81.92K", "32.77K", "49.15K", "24.58K"],
        [53.19, 62.00, 69.51, 63.25],
        [0.00, 6.90, 12.43, 8.04],
    ),
    (
        "hrn-3x6x2x:m=16",
        ["81.92K", "49.15K", "73.73K", "36.86K"],
        [52.80, 65.64, 70.96, 64.09],
        [0.00, 9.78, 13.44, 8.77],
    ),
    (
        "hrn-4x6x2x:m=16",
        ["81.92K", "65.54K", "98.30K", "49.15K"],
        [53.32, 66.03, 71.54, 64.82],
        [0.00, 9.48, 13.22, 8.76],
    ),
    (
        "hrn-5x6x2x:m=16",
        ["81.92K", "81.92K", "122.88K", "61.44K"],
        [51.64, 67.27, 71.50, 64.94],
        [0.00, 11.48, 14.18, 9.97],
    ),
    (
        "hrn-6x6x2x:m=16",
        ["81.92K", "98.30K", "147.46K", "73.73K"],
        [50.59, 67.94, 72.59, 65.39],
        [0.00, 12.58, 15.51, 10.95],
    ),
    (
        "hrn-7x6x2x:m=16",
        ["81.92K", "114.69K", "172.03K", "86.02K"],
        [49.64, 68.57, 72.84, 65.16],
        [0.00, 13.58, 16.18, 11.36],
    ),
    (
        "hrn-2x5x2x:m=16",
        ["81.92K", "32.77K", "40.96K", "20.48K"],
        [53.05, 61.76, 68.29, 62.58],
        [0.00, 6.82, 11.75, 7.71],
    ),
    (
        "hrn-3x5x2x:m=16",
        ["81.92K", "49.15K", "61.44K", "30.72K"],
        [52.61, 65.71, 69.93, 63.42],
        [0.00, 9.97, 12.98, 8.51],
    ),
    (
        "hrn-4x5x2x:m=16",
        ["81.92K", "65.54K", "81.92K", "40.96K"],
        [52.33, 66.89, 70.85, 63.94],
        [0.00, 10.86, 13.61, 8.95],
    ),
    (
        "hrn-5x5x2x:m=16",
        ["81.92K", "81.92K", "102.40K", "51.20K"],
        [51.16, 67.47, 71.69, 64.67],
        [0.00, 11.98, 14.85, 10.26],
    ),
    (
        "hrn-6x5x2x:m=16",
        ["81.92K", "98.30K", "122.88K", "61.44K"],
        [52.10, 68.08, 71.85, 64.89],
        [0.00, 11.59, 14.10, 9.59],
    ),
    (
        "hrn-7x5x2x:m=16",
        ["81.92K", "114.69K", "143.36K", "71.68K"],
        [51.93, 67.89, 72.87, 65.23],
        [0.00, 11.45, 14.79, 9.86],
    ),
    (
        "hrn-2x5x3x:m=16",
        ["81.92K", "32.77K", "40.96K", "30.72K"],
        [53.68, 61.30, 68.17, 63.83],
        [0.00, 5.97, 11.17, 7.99],
    ),
    (
        "hrn-3x5x3x:m=16",
        ["81.92K", "49.15K", "61.44K", "46.08K"],
        [52.89, 65.10, 70.14, 64.32],
        [0.00, 9.30, 12.93, 8.74],
    ),
    (
        "hrn-4x5x3x:m=16",
        ["81.92K", "65.54K", "81.92K", "61.44K"],
        [50.62, 66.06, 70.13, 65.58],
        [0.00, 11.52, 14.33, 11.21],
    ),
    (
        "hrn-5x5x3x:m=16",
        ["81.92K", "81.92K", "102.40K", "76.80K"],
        [52.41, 67.55, 70.97, 65.59],
        [0.00, 11.12, 13.42, 9.73],
    ),
    (
        "hrn-6x5x3x:m=16",
        ["81.92K", "98.30K", "122.88K", "92.16K"],
        [50.45, 67.61, 71.29, 65.87],
        [0.00, 12.45, 14.88, 11.23],
    ),
    (
        "hrn-7x5x3x:m=16",
        ["81.92K", "114.69K", "143.36K", "107.52K"],
        [50.31, 67.95, 71.87, 65.58],
        [0.00, 12.66, 15.23, 11.01],
    ),
    (
        "hrn-2x9x2x:m=16",
        ["81.92K", "32.77K", "73.73K", "36.86K"],
        [53.22, 61.65, 70.28, 64.25],
        [0.00, 6.60, 12.63, 8.57],
    ),
    (
        "hrn-2x6x3x:m=16",
        ["81.92K", "32.77K", "49.15K", "36.86K"],
        [52.85, 61.44, 68.76, 64.59],
        [0.00, 6.73, 12.11, 9.12],
    ),
];
