//! What `inspect` prints: one line per stage, block or layer, and the total.

use std::io::{self, Write};

use network::cost::{Cost, CostFigures, merge_runs};
use network::inference_model::{InferenceModel, ModelOperation, ModelOutline, ModelStep};
use network::mask::ActivationMask;
use network::shape::Shape;
use network::walk::{Network, Place, Step, ValueId};
use serde::Serialize;

use super::Detail;
use super::private::PrivateReport;
use crate::commands::model::normalization_text;
use crate::commands::trial::digest;
use crate::report::{Table, bar, grouped, percent, printable, short};

/// How many classes are named.
const NAMED: usize = 5;

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Report {
    network: String,
    input: [usize; 3],
    classes: usize,
    /// What a frozen model says of itself.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    model: Option<ModelHeader>,
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

/// What is in a frozen model beside its network.
#[derive(Serialize)]
struct ModelHeader {
    /// BLAKE3 of the model, which names it.
    digest: String,
    /// In the order of the logits; empty where nobody named them.
    class_names: Vec<String>,
    /// What is subtracted from each channel of pixels from 0 to 1, and what divides it then.
    mean: Vec<f32>,
    deviation: Vec<f32>,
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
        let header = ModelHeader::new(model);
        let report = Self::new(name, *input, *classes, step_lines(model.outline()), detail);
        Self { model: Some(header), ..report }
    }

    fn new(name: &str, input: Shape, classes: usize, mut layers: Vec<(Place, Line)>, detail: Detail) -> Self {
        let by_part = |place: Place| Place { block: None, ..place };
        let total: Cost = layers.iter().map(|(_, line)| line.cost).sum();
        layers.iter_mut().for_each(|(_, line)| line.figures = Some(line.cost.figures(total)));
        Self {
            network: name.to_owned(),
            input: [input.channels, input.height, input.width],
            classes,
            model: None,
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
        writeln!(out, "{}, {channels}x{height}x{width} to {} classes", self.network, self.classes)?;
        self.model.as_ref().map_or(Ok(()), |model| model.write(out))?;
        writeln!(out)?;
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

impl ModelHeader {
    fn new(model: &InferenceModel) -> Self {
        let ModelOutline { class_names, image, .. } = model.outline();
        Self {
            digest: digest(model),
            class_names: class_names.clone(),
            mean: image.mean.clone(),
            deviation: image.deviation.clone(),
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "digest {}", self.digest)?;
        writeln!(out, "{}", normalization_text(&self.mean, &self.deviation))?;
        let (shown, more) = match self.class_names.len() {
            0 => return writeln!(out, "classes have no names"),
            all if all <= NAMED => (all, String::new()),
            all => (NAMED, format!(", … and {} more (--json lists them)", all - NAMED)),
        };
        writeln!(out, "classes: {}{more}", printable(&self.class_names[..shown].join(", ")))
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
