//! ReLU-reuse (DeepReShape section 4, Figure 9, appendix G): ReLUs on a small contiguous part of the channels.
//!
//! The module stands where a block had a ReLU and its second convolution. With reduction factor N and C channels:
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

use super::{TransformError, checked};
use crate::spec::{Block, Conv, Draft, Group, Groups, Layer, NetworkSpec, Split};

/// How the channels are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReuseLayout {
    /// Three groups whatever the factor: the proposed form.
    #[default]
    ThreeGroups,
    /// As many groups as the factor.
    EqualGroups {
        /// Whether each group's input gets the output of the group before.
        shortcut: bool,
    },
}

/// Which ReLU layers take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReuseScope {
    /// The ReLU between the two convolutions of each block that has one; others stay. On thinned networks that is
    /// every ReLU there is (Tables 5, 11, 12), on full ones every other (Table 14).
    #[default]
    OnePerBlock,
    /// Every ReLU layer of stem and stages (Figure 21).
    AllLayers,
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
/// When the factor is below 2, channels do not divide, or a block has no convolution the module could replace.
pub fn reuse_relus(spec: &NetworkSpec, reuse: Reuse) -> Result<NetworkSpec, TransformError> {
    if reuse.factor < 2 {
        let factor = reuse.factor as f64;
        return Err(TransformError::Factor {
            what: "the reuse factor",
            factor,
            expected: "a whole number from 2",
        });
    }
    let widths = OutputWidths::of(spec);
    let mut draft = spec.draft().clone();
    if reuse.scope == ReuseScope::AllLayers {
        reuse_in_stem(&mut draft, reuse, &widths)?;
    }
    for (stage, stage_index) in draft.stages.iter_mut().zip(1..) {
        for (block, block_index) in stage.blocks.iter_mut().zip(1..) {
            let place = BlockPlace { stage: stage_index, block: block_index };
            match reuse.scope {
                ReuseScope::OnePerBlock => place.reuse_inner(block, reuse)?,
                ReuseScope::AllLayers => place.reuse_all(block, reuse, &widths)?,
            }
        }
    }
    checked(draft)
}

/// Channels of the values that ReLUs act on, by the name of their step.
struct OutputWidths(Vec<(String, usize)>);

impl OutputWidths {
    fn of(spec: &NetworkSpec) -> Self {
        Self(spec.walk().sites().iter().map(|site| (site.name.clone(), site.shape.channels)).collect())
    }

    fn at(&self, name: &str) -> Option<usize> {
        self.0.iter().find(|(site, _)| site == name).map(|(_, channels)| *channels)
    }
}

fn reuse_in_stem(draft: &mut Draft, reuse: Reuse, widths: &OutputWidths) -> Result<(), TransformError> {
    let place = BlockPlace { stage: 0, block: 0 };
    for (list, prefix) in [(&mut draft.stem.layers, "stem"), (&mut draft.stem.second, "stem.second")] {
        let mut number = 0;
        for layer in list.iter_mut().filter(|layer| layer.is_relu()) {
            number += 1;
            let channels = widths.at(&format!("{prefix}.relu{number}")).unwrap_or(0);
            *layer = place.partial_relu(channels, reuse.factor, layer)?;
        }
    }
    Ok(())
}

/// A block's position, for errors.
#[derive(Clone, Copy)]
struct BlockPlace {
    stage: usize,
    block: usize,
}

impl BlockPlace {
    fn not_reusable(self) -> TransformError {
        TransformError::NotReusable { stage: self.stage, block: self.block }
    }

    /// Replaces the inner ReLU and the convolution after it.
    fn reuse_inner(self, block: &mut Block, reuse: Reuse) -> Result<(), TransformError> {
        let body = match block {
            Block::Residual(residual) => &mut residual.body,
            Block::Plain(layers) => layers,
            Block::Cell(cell) if cell.post.iter().any(Layer::is_relu) => return Err(self.not_reusable()),
            Block::Cell(_) => return Ok(()),
        };
        if !body.iter().any(Layer::is_relu) {
            return Ok(());
        }
        let position = body
            .windows(2)
            .rposition(|pair| pair[0].is_relu() && matches!(&pair[1], Layer::Conv(conv) if keeps_map(conv)))
            .ok_or_else(|| self.not_reusable())?;
        let Layer::Conv(conv) = body[position + 1].clone() else { return Err(self.not_reusable()) };
        if channels_before(&body[..position]) != Some(conv.out) {
            return Err(self.not_reusable());
        }
        let module = self.module(conv.out, conv.kernel, &body[position], reuse)?;
        body.splice(position..position + 2, module);
        Ok(())
    }

    /// Both convolutions of a residual block become modules; what changes the map stays dense.
    fn reuse_all(self, block: &mut Block, reuse: Reuse, widths: &OutputWidths) -> Result<(), TransformError> {
        if let Block::Residual(residual) = block
            && residual.after_sum.iter().any(Layer::is_relu)
            && residual.body.iter().any(Layer::is_relu)
        {
            self.reuse_inner(block, reuse)?;
            let Block::Residual(residual) = block else { return Ok(()) };
            residual.after_sum.retain(|layer| !layer.is_relu());
            let Some(Layer::Conv(first)) = residual.body.first().cloned() else {
                return Err(self.not_reusable());
            };
            let module = if keeps_map(&first) && residual.shortcut.is_empty() {
                self.module(first.out, first.kernel, &Layer::Relu, reuse)?
            } else {
                vec![Layer::Conv(first.clone()), self.partial_relu(first.out, reuse.factor, &Layer::Relu)?]
            };
            let has_norm = matches!(residual.body.get(1), Some(Layer::BatchNorm));
            let dense_with_norm = has_norm && module.len() == 2 && matches!(module[0], Layer::Conv(_));
            if dense_with_norm {
                residual.body.insert(2, module[1].clone());
            } else {
                residual.body.splice(0..1, module);
            }
            return Ok(());
        }
        self.partial_everywhere(block, reuse, widths)
    }

    /// Blocks of other kinds keep their layers and lose ReLUs on most channels.
    fn partial_everywhere(
        self,
        block: &mut Block,
        reuse: Reuse,
        widths: &OutputWidths,
    ) -> Result<(), TransformError> {
        let prefix = format!("stage{}.block{}", self.stage, self.block);
        let lists = match block {
            Block::Plain(layers) => vec![(layers, prefix)],
            Block::Residual(residual) => vec![
                (&mut residual.before, format!("{prefix}.before")),
                (&mut residual.body, format!("{prefix}.body")),
                (&mut residual.shortcut, format!("{prefix}.shortcut")),
                (&mut residual.after_sum, format!("{prefix}.sum")),
            ],
            Block::Cell(cell) => vec![(&mut cell.post, format!("{prefix}.post"))],
        };
        for (list, prefix) in lists {
            let mut number = 0;
            for layer in list.iter_mut().filter(|layer| layer.is_relu()) {
                number += 1;
                let channels =
                    widths.at(&format!("{prefix}.relu{number}")).ok_or_else(|| self.not_reusable())?;
                *layer = self.partial_relu(channels, reuse.factor, layer)?;
            }
        }
        Ok(())
    }

    /// A ReLU on the last part of the channels alone.
    fn partial_relu(self, channels: usize, factor: usize, relu: &Layer) -> Result<Layer, TransformError> {
        let last = self.divide(channels, factor)?;
        let pass = Group { channels: channels - last, ..Group::default() };
        let active = Group { channels: last, carry: None, layers: vec![relu.clone()] };
        Ok(Layer::Split(Split { groups: vec![pass, active] }))
    }

    fn module(
        self,
        channels: usize,
        kernel: usize,
        relu: &Layer,
        reuse: Reuse,
    ) -> Result<Vec<Layer>, TransformError> {
        let groups = match reuse.layout {
            ReuseLayout::ThreeGroups => self.three_groups(channels, kernel, relu, reuse.factor)?,
            ReuseLayout::EqualGroups { shortcut } => {
                self.equal_groups(channels, kernel, relu, reuse.factor, shortcut)?
            }
        };
        Ok(vec![Layer::Split(Split { groups }), Layer::Conv(Conv::new(channels, 1))])
    }

    fn three_groups(
        self,
        channels: usize,
        kernel: usize,
        relu: &Layer,
        factor: usize,
    ) -> Result<Vec<Group>, TransformError> {
        let passed = self.divide(channels, 4)?;
        let active = self.divide(channels, factor)?;
        let middle = channels - passed - active;
        if middle == 0 {
            return Err(TransformError::Indivisible {
                stage: self.stage,
                block: self.block,
                channels,
                divisor: factor,
            });
        }
        let adapter = vec![Layer::Conv(Conv::new(active, 1))];
        Ok(vec![
            Group { channels: passed, ..Group::default() },
            Group { channels: middle, carry: None, layers: convolved(middle, kernel, None) },
            Group { channels: active, carry: Some(adapter), layers: convolved(active, kernel, Some(relu)) },
        ])
    }

    fn equal_groups(
        self,
        channels: usize,
        kernel: usize,
        relu: &Layer,
        factor: usize,
        shortcut: bool,
    ) -> Result<Vec<Group>, TransformError> {
        let size = self.divide(channels, factor)?;
        let mut groups = vec![Group { channels: size, ..Group::default() }];
        for number in 2..=factor {
            let layers = convolved(size, kernel, (number == factor).then_some(relu));
            groups.push(Group { channels: size, carry: shortcut.then(Vec::new), layers });
        }
        Ok(groups)
    }

    fn divide(self, channels: usize, divisor: usize) -> Result<usize, TransformError> {
        if channels == 0 || !channels.is_multiple_of(divisor) {
            return Err(TransformError::Indivisible {
                stage: self.stage,
                block: self.block,
                channels,
                divisor,
            });
        }
        Ok(channels / divisor)
    }
}

fn convolved(channels: usize, kernel: usize, relu: Option<&Layer>) -> Vec<Layer> {
    let mut layers = vec![Layer::Conv(Conv::new(channels, kernel)), Layer::BatchNorm];
    layers.extend(relu.cloned());
    layers
}

/// A dense convolution with a real kernel that keeps the resolution.
fn keeps_map(conv: &Conv) -> bool {
    conv.kernel > 1
        && conv.kernel % 2 == 1
        && conv.stride == 1
        && conv.padding.is_none()
        && conv.groups == Groups::DENSE
}

fn channels_before(layers: &[Layer]) -> Option<usize> {
    layers.iter().rev().find_map(|layer| match layer {
        Layer::Conv(conv) => Some(conv.out),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::zoo;

    const LAYOUTS: [ReuseLayout; 3] = [
        ReuseLayout::ThreeGroups,
        ReuseLayout::EqualGroups { shortcut: false },
        ReuseLayout::EqualGroups { shortcut: true },
    ];

    #[test]
    fn on_all_layers_every_relu_shrinks_by_the_factor() {
        for name in ["resnet18", "hrn-4x4x4x:m=16", "wrn-16x8", "mobilenetv1", "sphynx:c=16,d=5"] {
            let spec = zoo::build(name, 32, 100).unwrap();
            let stages =
                |spec: &NetworkSpec| Cost::of(spec).relus - Cost::by_part(spec).last().unwrap().1.relus;
            for layout in LAYOUTS {
                let reuse = Reuse { factor: 4, layout, scope: ReuseScope::AllLayers };
                let reused = reuse_relus(&spec, reuse).unwrap();
                assert_eq!(stages(&reused) * 4, stages(&spec), "{name} {layout:?}");
            }
        }
    }

    #[test]
    fn all_layouts_have_the_same_relus_and_other_work() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let costs: Vec<Cost> = LAYOUTS
            .iter()
            .map(|&layout| Cost::of(&reuse_relus(&spec, Reuse { layout, ..Reuse::new(8) }).unwrap()))
            .collect();
        assert!(costs.iter().all(|cost| cost.relus == costs[0].relus));
        assert!(costs[0].macs != costs[1].macs);
        assert_eq!(costs[1].macs, costs[2].macs, "an identity shortcut costs no multiply-add");
    }

    #[test]
    fn what_cannot_be_reused_is_refused_with_its_place() {
        let spec = zoo::build("mobilenetv2", 32, 100).unwrap();
        let error = reuse_relus(&spec, Reuse::new(4)).unwrap_err();
        assert!(matches!(error, TransformError::NotReusable { stage: 1, block: 1 }), "{error}");
        let spec = zoo::build("resnet18:m=30", 32, 100).unwrap();
        let error = reuse_relus(&spec, Reuse::new(4)).unwrap_err().to_string();
        assert_eq!(error, "stage 1, block 1 has 30 channels, which do not divide by 4");
        for bad in [0, 1] {
            assert!(matches!(reuse_relus(&spec, Reuse::new(bad)), Err(TransformError::Factor { .. })));
        }
    }
}
