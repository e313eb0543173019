//! How a computed count is compared with a printed one.

use sordino_network::cost::Cost;
use sordino_network::spec::NetworkSpec;
use sordino_network::transform::{Reduction, Reuse};
use sordino_network::walk::{Part, StageIndex};
use sordino_network::zoo;

/// How a paper prints a count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Printed {
    /// Rounded to the digits shown.
    Rounded(&'static str),
    /// Cut after the digits shown.
    Cut(&'static str),
    /// Not the count of the network the row describes; ours is given.
    Slip { paper: &'static str, ours: u64 },
}

use Printed::{Cut, Rounded, Slip};

impl From<&'static str> for Printed {
    fn from(text: &'static str) -> Self {
        Rounded(text)
    }
}

/// The digits of a printed count and the number of units in the last of them: `52.2K` is (522, 100).
fn digits(text: &str) -> (u64, u64) {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1_000),
        None => (text, 1),
    };
    let decimals = number.split_once('.').map_or(0, |(_, fraction)| fraction.len() as u32);
    let digits = number.replace('.', "").parse().expect("a printed number");
    (digits, unit / 10_u64.pow(decimals))
}

fn rounds_to(count: u64, text: &str) -> bool {
    let (digits, unit) = digits(text);
    (count + unit / 2) / unit == digits
}

fn cuts_to(count: u64, text: &str) -> bool {
    let (digits, unit) = digits(text);
    count / unit == digits
}

/// Fails unless the count is what the paper prints.
pub(crate) fn assert_printed(what: &str, count: u64, printed: Printed) {
    match printed {
        Rounded(text) => assert!(rounds_to(count, text), "{what}: counted {count}, printed {text}"),
        Cut(text) => {
            assert!(cuts_to(count, text), "{what}: counted {count}, printed (cut) {text}");
            assert!(!rounds_to(count, text), "{what}: {text} is rounded, not cut");
        }
        Slip { paper, ours } => {
            assert_eq!(count, ours, "{what}");
            assert!(!rounds_to(count, paper) && !cuts_to(count, paper), "{what}: {paper} is no slip");
        }
    }
}

/// Fails unless the multiply-adds lie within 1.5% of the printed millions.
pub(crate) fn assert_macs(what: &str, macs: u64, millions: f64) {
    let ratio = macs as f64 / (millions * 1e6);
    assert!((ratio - 1.0).abs() <= 0.015, "{what}: {macs} multiply-adds, printed {millions}M ({ratio:.4})");
}

/// Fails unless a criticality rounds to the printed one.
pub(crate) fn assert_criticality(what: &str, computed: f64, printed: f64, decimals: i32) {
    let tolerance = 0.5 * 10_f64.powi(-decimals) + 1e-9;
    assert!((computed - printed).abs() <= tolerance, "{what}: C_k {computed:.4}, printed {printed}");
}

/// One row of a table: a network and what was done to it.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) network: &'static str,
    pub(crate) input: usize,
    pub(crate) cull: &'static [usize],
    pub(crate) thin: &'static [usize],
    pub(crate) single_block: &'static [usize],
    pub(crate) width: Option<f64>,
    pub(crate) resolution: Option<f64>,
    pub(crate) reuse: Option<usize>,
}

impl Row {
    pub(crate) const fn new(network: &'static str, input: usize) -> Self {
        Self {
            network,
            input,
            cull: &[],
            thin: &[],
            single_block: &[],
            width: None,
            resolution: None,
            reuse: None,
        }
    }

    pub(crate) fn build(&self) -> NetworkSpec {
        let classes = if self.input == 64 { 200 } else { 100 };
        let spec = zoo::build(self.network, self.input, classes).unwrap();
        let stages = |numbers: &[usize]| numbers.iter().copied().map(StageIndex).collect();
        let reduction = Reduction {
            width: self.width,
            resolution: self.resolution,
            single_block: stages(self.single_block),
            cull: stages(self.cull),
            thin: stages(self.thin),
            reuse: self.reuse.map(Reuse::new),
            ..Reduction::default()
        };
        reduction.apply(&spec).unwrap()
    }

    pub(crate) fn cost(&self) -> Cost {
        Cost::of(&self.build())
    }
}

/// ReLUs of the stem and of each stage.
pub(crate) fn stage_relus(network: &str, input: usize) -> (u64, Vec<u64>) {
    let spec = zoo::build(network, input, 100).unwrap();
    let parts = Cost::by_part(&spec);
    let of = |part| parts.iter().find(|(found, _)| *found == part).map_or(0, |(_, cost)| cost.relus);
    let stages = (1..=spec.stage_count()).map(|stage| of(Part::Stage(StageIndex(stage)))).collect();
    (of(Part::Stem), stages)
}

#[test]
fn printed_digits_are_compared_exactly() {
    assert!(rounds_to(52_224, "52.2K") && !rounds_to(52_224, "52.3K"));
    assert!(rounds_to(229_376, "229.38K") && rounds_to(557_056, "557K"));
    assert!(cuts_to(3_264, "3.2K") && !rounds_to(3_264, "3.2K"));
    assert!(rounds_to(491_520, "491520"));
}
