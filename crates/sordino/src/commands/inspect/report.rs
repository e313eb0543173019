//! What `inspect` prints: one line per stage, block or layer, and the total.

use std::io::Write;

use network::cost::{Cost, CostFigures, merge_runs};
use network::inference_model::{InferenceModel, ModelOperation, ModelOutline, ModelStep};
use network::mask::ActivationMask;
use network::shape::Shape;
use network::walk::{Network, Place, Step, ValueId};
use serde::Serialize;

use super::Detail;
use super::private::PrivateReport;
use crate::report::{Table, bar, grouped, percent, short};

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Report {
    network: String,
    input: [usize; 3],
    classes: usize,
    #[serde(flatten)]
    figures: CostFigures,
    #[serde(skip)]
    total: Cost,
    stages: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blocks: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<Line>,
    /// The plan of private inference, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) private: Option<PrivateReport>,
}

/// One stage, block or layer.
#[derive(Clone, Serialize)]
struct Line {
    stage: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    output: [usize; 3],
    /// Of the cost, in the words that the whole network is described with.
    #[serde(flatten)]
    figures: Option<CostFigures>,
    #[serde(skip)]
    cost: Cost,
}

impl Report {
    pub(super) fn of_network(network: &dyn Network, mask: Option<&ActivationMask>, detail: Detail) -> Self {
        let walk = network.walk();
        let input = walk.shape(ValueId::IMAGE);
        Self::new(network.name(), input, walk.classes(), layer_lines(network, mask), detail)
    }

    /// A frozen network: batch norms are folded and some layers merged, so that lines are its own steps.
    pub(super) fn of_model(model: &InferenceModel, detail: Detail) -> Self {
        let ModelOutline { name, input, classes, .. } = model.outline();
        Self::new(name, *input, *classes, step_lines(model.outline()), detail)
    }

    fn new(name: &str, input: Shape, classes: usize, mut layers: Vec<(Place, Line)>, detail: Detail) -> Self {
        let by_part = |place: Place| Place { block: None, ..place };
        let total: Cost = layers.iter().map(|(_, line)| line.cost).sum();
        layers.iter_mut().for_each(|(_, line)| line.figures = Some(line.cost.figures(total)));
        Self {
            network: name.to_owned(),
            input: [input.channels, input.height, input.width],
            classes,
            figures: total.figures(total),
            total,
            stages: merged(&layers, total, by_part),
            blocks: if detail == Detail::Block { merged(&layers, total, |place| place) } else { Vec::new() },
            layers: match detail {
                Detail::Layer => layers.into_iter().map(|(_, line)| line).collect(),
                _ => Vec::new(),
            },
            private: None,
        }
    }

    pub(super) fn write(&self, out: &mut dyn Write, baseline_relus: u64) -> anyhow::Result<()> {
        let [channels, height, width] = self.input;
        writeln!(out, "{}, {channels}x{height}x{width} to {} classes\n", self.network, self.classes)?;
        self.table().write(out)?;
        if self.total.maxpools > 0 {
            writeln!(out, "\n{} max-pool outputs, counted apart", grouped(self.total.maxpools))?;
        }
        if self.total.relus != baseline_relus {
            let share = percent(self.total.relus, baseline_relus);
            let counted = if self.total.shares_signs() { "comparisons" } else { "ReLUs" };
            writeln!(out, "\n{share} of the {} {counted} of the network as named", grouped(baseline_relus))?;
        }
        self.private.as_ref().map_or(Ok(()), |private| private.write(out))
    }

    fn table(&self) -> Table {
        let (first, per, lines) = match (&self.blocks[..], &self.layers[..]) {
            ([], []) => ("<stage", " per stage", &self.stages),
            (_, []) => ("<stage", " per stage", &self.blocks),
            _ => ("<layer", "", &self.layers),
        };
        let mut table = match self.total.shares_signs() {
            false => Table::new(&[
                first,
                "<output",
                "ReLUs",
                "share",
                "multiply-adds",
                "parameters",
                &format!("<ReLUs{per}"),
            ]),
            true => Table::new(&[
                first,
                "<output",
                "comparisons",
                "share",
                "gated values",
                "multiply-adds",
                "parameters",
                &format!("<comparisons{per}"),
            ]),
        };
        let largest = lines.iter().map(|line| line.cost.relus).max().unwrap_or(0);
        for line in lines {
            let [channels, height, width] = line.output;
            let output = format!("{channels}x{height}x{width}");
            table.row(self.cells(line.title(), output, line.cost, bar(line.cost.relus, largest, 32)));
        }
        table.rule();
        table.row(self.cells("total".to_owned(), String::new(), self.total, String::new()));
        table
    }

    fn cells(&self, title: String, output: String, cost: Cost, bar: String) -> Vec<String> {
        let mut cells = vec![title, output, grouped(cost.relus), percent(cost.relus, self.total.relus)];
        cells.extend(self.total.shares_signs().then(|| grouped(cost.gated_values)));
        cells.extend([short(cost.macs), grouped(cost.parameters), bar]);
        cells
    }
}

impl Line {
    fn title(&self) -> String {
        match (&self.name, self.block) {
            (Some(name), _) => name.clone(),
            (None, Some(block)) => format!("{}.{block}", self.stage),
            (None, None) => self.stage.clone(),
        }
    }
}

fn layer_lines(network: &dyn Network, mask: Option<&ActivationMask>) -> Vec<(Place, Line)> {
    let walk = network.walk();
    let line = |step: &Step| {
        let cost = match mask {
            Some(mask) => Cost::of_masked_step(walk, step, mask),
            None => Cost::of_step(walk, step),
        };
        let output = walk.shape(step.output);
        let line = Line {
            stage: step.place.part.to_string(),
            block: step.place.block,
            name: Some(step.name.clone()),
            output: [output.channels, output.height, output.width],
            figures: None,
            cost,
        };
        (step.place, line)
    };
    walk.steps().iter().map(line).collect()
}

fn step_lines(outline: &ModelOutline) -> Vec<(Place, Line)> {
    let line = |step: &ModelStep| {
        let output = step.shape;
        let mut cost = Cost::default();
        match &step.operation {
            ModelOperation::Linear { geometry, .. } => {
                let taps = geometry.taps() as u64;
                cost.macs = taps * output.scalars();
                cost.parameters = (taps + 1) * geometry.outputs() as u64;
            }
            ModelOperation::Activate { mask, .. } => cost.relus = mask.relu_count(output),
            ModelOperation::Gate(gate) => {
                cost.relus = gate.comparison_count(output);
                cost.gated_values = gate.gated_value_count(output);
            }
            ModelOperation::Maximum { .. } => cost.maxpools = output.scalars(),
            _ => {}
        }
        let line = Line {
            stage: step.place.part.to_string(),
            block: step.place.block,
            name: Some(step.name.clone()),
            output: [output.channels, output.height, output.width],
            figures: None,
            cost,
        };
        (step.place, line)
    };
    outline.steps.iter().map(line).collect()
}

/// Adds up the layers at the same place; the last one gives the output.
fn merged(layers: &[(Place, Line)], total: Cost, place: impl Fn(Place) -> Place) -> Vec<Line> {
    let keyed = layers.iter().map(|(at, line)| {
        let place = place(*at);
        (place, Line { block: place.block, name: None, ..line.clone() })
    });
    let add = |sum: &mut Line, line: Line| {
        sum.cost += line.cost;
        sum.figures = Some(sum.cost.figures(total));
        sum.output = line.output;
    };
    merge_runs(keyed, add).into_iter().map(|(_, line)| line).collect()
}
