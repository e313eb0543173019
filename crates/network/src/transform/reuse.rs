//! ReLU-reuse (DeepReShape section 4, Figure 9, appendix G): ReLUs on a small contiguous part of the channels.
//!
//! The module stands where a block had a ReLU and the convolution after it. With reduction factor N and C channels:
//!
//! ```text
//!            first C/4        passed on unchanged ──────────────────────────┐
//! C channels (3/4 - 1/N) C    3x3 conv ───┬─────────────────────────────────┤ concat, 1x1 conv C to C
//!            last C/N         + 1x1 conv <┘, 3x3 conv, ReLU ────────────────┘
//! ```
//!
//! The paper does not print this layout; it is the one that reproduces the multiply-adds of its Tables 5, 11 and
//! 12. The N-group forms of its ablation (Table 14) divide into N equal groups, the first passed on unchanged, the
//! others convolved, with or without the group before added to the input.
//!
//! Where no convolution follows that keeps the map and its channels, the layer stays and its ReLU acts on the last
//! C/N channels alone; layouts then make no difference.

mod module;

use serde::{Deserialize, Serialize};

use super::{TransformError, checked};
use crate::spec::{Block, Cell, Conv, Groups, Layer, NetworkSpec, Residual};
use crate::walk::{Operation, Part, Place, StageIndex};

use module::Modules;

/// How ReLU-reuse divides the channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ReuseLayout {
    /// Three groups whatever N is: the proposed form.
    #[default]
    Three,
    /// N groups, each on its own.
    Equal,
    /// N groups, each fed by the one before.
    EqualShortcut,
}

/// Which ReLU layers ReLU-reuse replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ReuseScope {
    /// The ReLU between the two convolutions of each block.
    ///
    /// Blocks without one stay. On thinned networks that is every ReLU there is (Tables 5, 11, 12), on full ones every
    /// other (Table 14).
    #[default]
    Block,
    /// Every ReLU layer of stem and stages.
    ///
    /// That is Figure 21.
    All,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// By which factor the ReLUs of a layer shrink.
    pub factor: usize,
    /// How the channels are divided.
    pub layout: ReuseLayout,
    /// Which ReLU layers take part.
    pub scope: ReuseScope,
}

impl Reuse {
    /// The paper's form with this factor.
    pub fn new(factor: usize) -> Self {
        Self { factor, layout: ReuseLayout::default(), scope: ReuseScope::default() }
    }
}

/// Replaces ReLU layers by reuse modules.
///
/// # Errors
/// When the factor is below 2, channels share signs or do not divide, a block has no convolution the module could replace, or no
/// ReLU layer could take part at all.
pub fn reuse_relus(spec: &NetworkSpec, reuse: Reuse) -> Result<NetworkSpec, TransformError> {
    if reuse.factor < 2 {
        let (what, factor) = ("the reuse factor", reuse.factor as f64);
        return Err(TransformError::Factor { what, factor, expected: "a whole number from 2" });
    }
    if spec.walk().steps().iter().any(|step| matches!(step.operation, Operation::SharedSigns { .. })) {
        return Err(TransformError::SharedSigns { network: spec.name().to_owned() });
    }
    let mut draft = spec.draft().clone();
    if reuse.scope == ReuseScope::All {
        let mut stem = Rebuilder::new(spec, Place { part: Part::Stem, block: None }, reuse);
        stem.every_relu(&mut draft.stem.layers)?;
        stem.every_relu(&mut draft.stem.second)?;
    }
    for (stage, stage_index) in draft.stages.iter_mut().zip(1..) {
        for (block, block_index) in stage.blocks.iter_mut().zip(1..) {
            let place = Place { part: Part::Stage(StageIndex(stage_index)), block: Some(block_index) };
            let mut rebuilder = Rebuilder::new(spec, place, reuse);
            match reuse.scope {
                ReuseScope::Block => rebuilder.inner_relu(block)?,
                ReuseScope::All => rebuilder.block(block)?,
            }
        }
    }
    if draft == *spec.draft() {
        return Err(TransformError::NothingToReuse { network: spec.name().to_owned() });
    }
    checked(draft)
}

/// Goes through the ReLUs of one block in the order of the walk, so that each meets its number of channels.
struct Rebuilder {
    place: Place,
    channels: std::vec::IntoIter<usize>,
    modules: Modules,
}

impl Rebuilder {
    fn new(spec: &NetworkSpec, place: Place, reuse: Reuse) -> Self {
        let sites = spec.walk().sites().iter().filter(|site| site.place == place);
        let channels: Vec<usize> = sites.map(|site| site.shape.channels).collect();
        Self { place, channels: channels.into_iter(), modules: Modules { place, reuse } }
    }

    fn not_reusable(&self) -> TransformError {
        TransformError::NotReusable { place: self.place }
    }

    fn next_channels(&mut self) -> usize {
        self.channels.next().expect("the walk has a site for every ReLU of the draft, in the same order")
    }

    /// Replaces the inner ReLU of a block and the convolution after it.
    fn inner_relu(&mut self, block: &mut Block) -> Result<(), TransformError> {
        let body = match block {
            Block::Residual(residual) => {
                self.skip(&mut residual.before);
                &mut residual.body
            }
            Block::Plain(layers) => layers,
            // No ReLU of a cell stands between two dense convolutions.
            Block::Cell(_) if self.channels.len() > 0 => return Err(self.not_reusable()),
            Block::Cell(_) => return Ok(()),
        };
        let mut found = None;
        for index in 0..body.len() {
            for nested in body[index].nested_mut() {
                self.skip(nested);
            }
            if body[index].is_relu() {
                let channels = self.next_channels();
                found = following_conv(body, index, channels).map(|conv| (index, conv)).or(found);
            }
        }
        match found {
            Some((index, conv)) => {
                let module = self.modules.module(&conv, &body[index])?;
                body.splice(index..index + 2, module);
                Ok(())
            }
            None if body.iter().any(Layer::is_relu) => Err(self.not_reusable()),
            None => Ok(()),
        }
    }

    fn skip(&mut self, list: &mut [Layer]) {
        super::visit(list, &mut |layer| {
            if layer.is_relu() {
                self.next_channels();
            }
        });
    }

    fn block(&mut self, block: &mut Block) -> Result<(), TransformError> {
        match block {
            Block::Plain(layers) => self.every_relu(layers),
            Block::Residual(residual) => self.residual(residual),
            Block::Cell(cell) => self.cell(cell),
        }
    }

    fn residual(&mut self, residual: &mut Residual) -> Result<(), TransformError> {
        self.every_relu(&mut residual.before)?;
        self.every_relu(&mut residual.body)?;
        self.every_relu(&mut residual.shortcut)?;
        // The ReLU on the sum goes into a module in place of the block's first convolution, where that keeps the map
        // and, as the identity beside it does, the channels.
        if let (Some(Layer::Conv(first)), [relu]) = (residual.body.first(), &residual.after_sum[..])
            && residual.shortcut.is_empty()
            && residual.before.is_empty()
            && relu.is_relu()
            && keeps_map(first)
            && self.channels.as_slice() == [first.out]
        {
            let module = self.modules.module(first, relu)?;
            residual.body.splice(0..1, module);
            residual.after_sum.clear();
            return Ok(());
        }
        self.every_relu(&mut residual.after_sum)
    }

    fn cell(&mut self, cell: &mut Cell) -> Result<(), TransformError> {
        // A ReLU that several edges share has no list of layers in which it could act on a part of the channels.
        if cell.nodes.iter().flatten().any(|edge| edge.activated) {
            return Err(self.not_reusable());
        }
        self.every_relu(&mut cell.older)?;
        self.every_relu(&mut cell.newer)?;
        for edge in cell.nodes.iter_mut().flatten() {
            self.every_relu(&mut edge.layers)?;
        }
        self.every_relu(&mut cell.post)
    }

    /// Every ReLU of a list and of the lists inside it becomes a module, or acts on a part of the channels.
    fn every_relu(&mut self, list: &mut Vec<Layer>) -> Result<(), TransformError> {
        let mut rebuilt = Vec::with_capacity(list.len());
        let mut index = 0;
        while index < list.len() {
            for nested in list[index].nested_mut() {
                self.every_relu(nested)?;
            }
            if !list[index].is_relu() {
                rebuilt.push(list[index].clone());
                index += 1;
                continue;
            }
            let channels = self.next_channels();
            match following_conv(list, index, channels) {
                Some(conv) => {
                    rebuilt.extend(self.modules.module(&conv, &list[index])?);
                    index += 2;
                }
                None => {
                    rebuilt.push(self.modules.partial_relu(channels, &list[index])?);
                    index += 1;
                }
            }
        }
        *list = rebuilt;
        Ok(())
    }
}

/// The convolution after a ReLU on this many channels, if a module can stand for both.
fn following_conv(list: &[Layer], relu: usize, channels: usize) -> Option<Conv> {
    match list.get(relu + 1) {
        Some(Layer::Conv(conv)) if keeps_map(conv) && conv.out == channels => Some(conv.clone()),
        _ => None,
    }
}

/// A dense convolution with a real filter that keeps the resolution.
fn keeps_map(conv: &Conv) -> bool {
    conv.filter > 1
        && conv.stride == 1
        && conv.groups == Groups::DENSE
        && 2 * conv.resolved_padding() == conv.dilation * (conv.filter - 1)
}

#[cfg(test)]
mod tests;
