//! How a draft becomes a walk: one method per kind of layer, shapes checked as they arise.

mod signs;
mod window;

use std::collections::HashMap;

use super::{Operation, Part, Place, ReluSite, SiteIndex, StageIndex, Step, ValueId, Walk};
use crate::shape::Shape;
use crate::spec::{Block, Branches, Cell, Draft, Join, Layer, Residual, SpecError, SpecFault, Split};

const MAX_DEPTH: usize = 6;
const MAX_STEPS: usize = 20_000;
const MAX_WORK: u64 = 1 << 53;

pub(super) fn walk(draft: &Draft) -> Result<Walk, SpecError> {
    if draft.name.chars().any(char::is_control) {
        return Err(SpecError { place: "name".to_owned(), fault: SpecFault::ControlCharacter });
    }
    let mut builder = Builder::new(draft.input, draft.classes);
    builder.network(draft).map_err(|fault| SpecError { place: builder.place_in_words(), fault })?;
    Ok(Walk { steps: builder.steps, shapes: builder.shapes, sites: builder.sites })
}

pub(crate) type Outcome<T> = Result<T, SpecFault>;

pub(crate) struct Builder {
    classes: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) sites: Vec<ReluSite>,
    /// What the next step is called, where that does not follow from its place.
    given_name: Option<String>,
    place: Place,
    /// The path below the block, such as `body`, `branch2`; names and error places are made from it.
    path: Vec<String>,
    /// The layer being walked in each list, for error places.
    layers: Vec<(usize, &'static str)>,
    counters: HashMap<(String, &'static str), usize>,
}

impl Builder {
    pub(crate) fn new(input: Shape, classes: usize) -> Self {
        Self {
            classes,
            steps: Vec::new(),
            shapes: vec![input],
            sites: Vec::new(),
            given_name: None,
            place: Place { part: Part::Stem, block: None },
            path: Vec::new(),
            layers: Vec::new(),
            counters: HashMap::new(),
        }
    }

    fn network(&mut self, draft: &Draft) -> Outcome<()> {
        if !draft.input.is_sane() {
            return Err(SpecFault::Size { shape: draft.input });
        }
        let mut older = self.list(&draft.stem.layers, ValueId::IMAGE)?;
        let mut newer = self.within("second", |this| this.list(&draft.stem.second, older))?;
        for (index, stage) in draft.stages.iter().enumerate() {
            self.place = Place { part: Part::Stage(StageIndex(index + 1)), block: None };
            if stage.blocks.is_empty() {
                return Err(SpecFault::Empty { what: "the list of blocks" });
            }
            for (number, block) in stage.blocks.iter().enumerate() {
                self.place.block = Some(number + 1);
                let output = self.block(block, older, newer)?;
                older = newer;
                newer = output;
            }
        }
        self.place = Place { part: Part::Head, block: None };
        let end = self.list(&draft.head, newer)?;
        let shape = self.shapes[end.0];
        if shape != Shape::vector(draft.classes) || end.0 + 1 != self.shapes.len() || end == ValueId::IMAGE {
            return Err(SpecFault::End { end: shape, classes: draft.classes });
        }
        Ok(())
    }

    fn block(&mut self, block: &Block, older: ValueId, newer: ValueId) -> Outcome<ValueId> {
        match block {
            Block::Plain(layers) => self.list(layers, newer),
            Block::Residual(residual) => self.residual(residual, newer),
            Block::Cell(cell) => self.cell(cell, older, newer),
        }
    }

    fn residual(&mut self, residual: &Residual, input: ValueId) -> Outcome<ValueId> {
        let input = self.within("before", |this| this.list(&residual.before, input))?;
        let body = self.within("body", |this| this.list(&residual.body, input))?;
        let shortcut = self.within("shortcut", |this| this.list(&residual.shortcut, input))?;
        let sum = self.join(Join::Sum, vec![body, shortcut])?;
        self.within("sum", |this| this.list(&residual.after_sum, sum))
    }

    fn cell(&mut self, cell: &Cell, older: ValueId, newer: ValueId) -> Outcome<ValueId> {
        let older = self.within("older", |this| this.list(&cell.older, older))?;
        let newer = self.within("newer", |this| this.list(&cell.newer, newer))?;
        let mut nodes = vec![older, newer];
        let mut activated = HashMap::new();
        for edges in &cell.nodes {
            let number = nodes.len();
            let mut ends = Vec::with_capacity(edges.len());
            for (index, edge) in edges.iter().enumerate() {
                let mut start = node(&nodes, edge.from)?;
                if edge.activated {
                    start = match activated.get(&edge.from) {
                        Some(value) => *value,
                        None => self.within(&format!("node{}", edge.from), |this| this.relu(start, None))?,
                    };
                    activated.insert(edge.from, start);
                }
                ends.push(self.within(&format!("node{number}.edge{}", index + 1), |this| {
                    this.list(&edge.layers, start)
                })?);
            }
            nodes.push(self.within(&format!("node{number}"), |this| this.join(Join::Sum, ends))?);
        }
        let parts = cell.concat.iter().map(|index| node(&nodes, *index)).collect::<Outcome<_>>()?;
        let joined = self.join(Join::Concat, parts)?;
        self.within("post", |this| this.list(&cell.post, joined))
    }

    fn list(&mut self, layers: &[Layer], input: ValueId) -> Outcome<ValueId> {
        if self.layers.len() >= MAX_DEPTH {
            return Err(SpecFault::Depth { limit: MAX_DEPTH });
        }
        let mut value = input;
        for (index, layer) in layers.iter().enumerate() {
            self.layers.push((index + 1, layer.kind()));
            value = self.layer(layer, value)?;
            self.layers.pop();
        }
        Ok(value)
    }

    /// The next step is called so.
    pub(crate) fn name_next(&mut self, name: String) {
        self.given_name = Some(name);
    }

    pub(crate) fn layer(&mut self, layer: &Layer, input: ValueId) -> Outcome<ValueId> {
        match layer {
            Layer::Conv(conv) => self.conv(conv, input),
            Layer::BatchNorm => self.same_size(Operation::BatchNorm { affine: true }, input),
            Layer::PlainBatchNorm => self.same_size(Operation::BatchNorm { affine: false }, input),
            Layer::Relu => self.relu(input, None),
            Layer::Relu6 => self.relu(input, Some(6)),
            Layer::SharedSigns(signs) => self.shared_signs(signs, input),
            Layer::AveragePool(pool) => self.pool(Operation::AveragePool(pool.clone()), pool, input),
            Layer::MaxPool(pool) => self.pool(Operation::MaxPool(pool.clone()), pool, input),
            Layer::GlobalAveragePool => {
                let channels = self.shapes[input.0].channels;
                self.push(Operation::GlobalAveragePool, vec![input], Shape::vector(channels))
            }
            Layer::FactorizedReduce(reduce) => self.factorized_reduce(reduce, input),
            Layer::FullyConnected(layer) => self.fully_connected(layer.out, input),
            Layer::Classifier => self.fully_connected(self.classes, input),
            Layer::Branches(branches) => self.branches(branches, input),
            Layer::Split(split) => self.split(split, input),
        }
    }

    fn fully_connected(&mut self, outputs: usize, input: ValueId) -> Outcome<ValueId> {
        let shape = Shape::vector(outputs);
        if !shape.is_sane() {
            return Err(SpecFault::Size { shape });
        }
        let inputs = self.shapes[input.0].scalars();
        if inputs.checked_mul(outputs as u64).is_none_or(|work| work > MAX_WORK) {
            return Err(SpecFault::Work);
        }
        let inputs = usize::try_from(inputs).map_err(|_| SpecFault::Work)?;
        self.push(Operation::FullyConnected { inputs, outputs }, vec![input], shape)
    }

    fn relu(&mut self, input: ValueId, ceiling: Option<u8>) -> Outcome<ValueId> {
        let shape = self.shapes[input.0];
        self.compare(input, shape, |site| Operation::Relu { site, ceiling })
    }

    /// A step with as many comparisons as the shape has scalars.
    fn compare(
        &mut self,
        input: ValueId,
        shape: Shape,
        operation: impl FnOnce(SiteIndex) -> Operation,
    ) -> Outcome<ValueId> {
        let index = SiteIndex(self.sites.len());
        let output = self.same_size(operation(index), input)?;
        let step = self.steps.len() - 1;
        let name = self.steps[step].name.clone();
        self.sites.push(ReluSite { index, step, name, place: self.place, shape });
        Ok(output)
    }

    fn branches(&mut self, branches: &Branches, input: ValueId) -> Outcome<ValueId> {
        let mut ends = Vec::with_capacity(branches.branches.len());
        for (index, branch) in branches.branches.iter().enumerate() {
            ends.push(self.within(&format!("branch{}", index + 1), |this| this.list(branch, input))?);
        }
        self.join(branches.join, ends)
    }

    fn split(&mut self, split: &Split, input: ValueId) -> Outcome<ValueId> {
        let channels = self.shapes[input.0].channels;
        let total = split.groups.iter().fold(0_usize, |sum, group| sum.saturating_add(group.channels));
        if total != channels {
            return Err(SpecFault::Split { groups: total, input: channels });
        }
        let mut start = 0;
        let mut ends: Vec<ValueId> = Vec::with_capacity(split.groups.len());
        for (index, group) in split.groups.iter().enumerate() {
            at_least_one("a group's number of channels", group.channels)?;
            let end = self.within(&format!("group{}", index + 1), |this| {
                let shape = this.shapes[input.0].with_channels(group.channels);
                let slice = Operation::Slice { start, channels: group.channels };
                let mut value = this.push(slice, vec![input], shape)?;
                if let Some(carry) = &group.carry {
                    let previous = *ends.last().ok_or(SpecFault::Carry)?;
                    let carried = this.within("carry", |this| this.list(carry, previous))?;
                    value = this.join(Join::Sum, vec![value, carried])?;
                }
                this.list(&group.layers, value)
            })?;
            start += group.channels;
            ends.push(end);
        }
        self.join(Join::Concat, ends)
    }

    pub(crate) fn join(&mut self, join: Join, ends: Vec<ValueId>) -> Outcome<ValueId> {
        let Some(&first) = ends.first() else {
            return Err(SpecFault::Empty { what: "the list of values to join" });
        };
        if ends.len() == 1 {
            return Ok(first);
        }
        let shape = self.shapes[first.0];
        let mut channels = 0_usize;
        for end in &ends {
            let other = self.shapes[end.0];
            let comparable = if join == Join::Sum { other } else { other.with_channels(shape.channels) };
            if comparable != shape {
                let joined = if join == Join::Sum { "added" } else { "concatenated" };
                return Err(SpecFault::Branches { first: shape, other, joined });
            }
            channels = channels.saturating_add(other.channels);
        }
        match join {
            Join::Sum => self.push(Operation::Add, ends, shape),
            Join::Concat => self.push(Operation::Concat, ends, shape.with_channels(channels)),
        }
    }

    fn same_size(&mut self, operation: Operation, input: ValueId) -> Outcome<ValueId> {
        let shape = self.shapes[input.0];
        self.push(operation, vec![input], shape)
    }

    pub(crate) fn push(
        &mut self,
        operation: Operation,
        inputs: Vec<ValueId>,
        shape: Shape,
    ) -> Outcome<ValueId> {
        if !shape.is_sane() {
            return Err(SpecFault::Size { shape });
        }
        if self.steps.len() >= MAX_STEPS {
            return Err(SpecFault::Steps { limit: MAX_STEPS });
        }
        let name = self.given_name.take().unwrap_or_else(|| self.unique_name(operation.kind()));
        let output = ValueId(self.shapes.len());
        self.shapes.push(shape);
        self.steps.push(Step { operation, inputs, output, place: self.place, name });
        Ok(output)
    }

    /// Numbers operations per path and kind, so that dropping a ReLU renames no convolution.
    fn unique_name(&mut self, kind: &'static str) -> String {
        let mut prefix = match self.place.part {
            Part::Stem => "stem.".to_owned(),
            Part::Stage(stage) => format!("stage{}.", stage.0),
            Part::Head => "head.".to_owned(),
        };
        if let Some(block) = self.place.block {
            prefix.push_str(&format!("block{block}."));
        }
        for part in &self.path {
            prefix.push_str(part);
            prefix.push('.');
        }
        let counter = self.counters.entry((prefix.clone(), kind)).or_default();
        *counter += 1;
        format!("{prefix}{kind}{counter}")
    }

    /// Runs with one more word on the path. On an error the path stays as it is, to name the place.
    fn within<T>(&mut self, word: &str, run: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        self.path.push(word.to_owned());
        let result = run(self)?;
        self.path.pop();
        Ok(result)
    }

    fn place_in_words(&self) -> String {
        let mut words = match self.place.part {
            Part::Stem => "stem".to_owned(),
            Part::Stage(stage) => format!("stage {}", stage.0),
            Part::Head => "head".to_owned(),
        };
        if let Some(block) = self.place.block {
            words.push_str(&format!(", block {block}"));
        }
        for part in &self.path {
            words.push_str(&format!(", {part}"));
        }
        if let Some((number, kind)) = self.layers.last() {
            words.push_str(&format!(", layer {number} ({kind})"));
        }
        words
    }
}

fn node(nodes: &[ValueId], index: usize) -> Outcome<ValueId> {
    nodes.get(index).copied().ok_or(SpecFault::Node { node: index, last: nodes.len() - 1 })
}

fn at_least_one(what: &'static str, value: usize) -> Outcome<()> {
    if value == 0 { Err(SpecFault::Parameter { what, value, expected: "at least 1" }) } else { Ok(()) }
}
