//! WideResNets (Zagoruyko and Komodakis 2016): pre-activation blocks, three stages.
//!
//! Where a block changes the shape, its first batch norm and ReLU feed both paths; so the first ReLU of a stage
//! acts on the map of the stage before. SNL's network has no ReLU before the final pooling (`final-relu=no`), the
//! other papers count it.

use super::name::Name;
use super::{Parts, ZooError};
use crate::spec::{Block, Conv, Layer, Residual};

/// What `wrn-22x8` alone says.
pub(super) struct Base {
    blocks: usize,
    widening: usize,
}

/// Recognizes `wrn-22x8`; the depth is 6n + 4.
pub(super) fn parse(family: &str) -> Option<Base> {
    let (depth, widening) = family.strip_prefix("wrn-")?.split_once('x')?;
    let depth: usize = depth.parse().ok().filter(|depth| (10..=1000).contains(depth) && depth % 6 == 4)?;
    let widening = widening.parse().ok().filter(|widening| (1..=1024).contains(widening))?;
    Some(Base { blocks: (depth - 4) / 6, widening })
}

impl Base {
    pub(super) fn build(self, name: &mut Name) -> Result<Parts, ZooError> {
        let has_final_relu = name.choice("final-relu", &[("yes", true), ("no", false)])?;
        let stem = name.number("stem-channels", 16)?;
        let mut input = stem;
        let mut stages = Vec::new();
        for (index, base) in [16, 32, 64].into_iter().enumerate() {
            let output = base * self.widening;
            let mut blocks = Vec::new();
            for number in 0..self.blocks {
                let stride = if index > 0 && number == 0 { 2 } else { 1 };
                blocks.push(block(input, output, stride));
                input = output;
            }
            stages.push(blocks);
        }
        let mut parts = Parts::pooled(vec![Layer::Conv(Conv::new(stem, 3))], stages);
        let tail = if has_final_relu { vec![Layer::BatchNorm, Layer::Relu] } else { vec![Layer::BatchNorm] };
        parts.head.splice(0..0, tail);
        Ok(parts)
    }
}

fn block(input: usize, output: usize, stride: usize) -> Block {
    let mut leading = vec![Layer::BatchNorm, Layer::Relu];
    let mut body = vec![
        Layer::Conv(Conv::new(output, 3).stride(stride)),
        Layer::BatchNorm,
        Layer::Relu,
        Layer::Conv(Conv::new(output, 3)),
    ];
    let mut residual = Residual::default();
    if stride == 1 && input == output {
        leading.append(&mut body);
        residual.body = leading;
    } else {
        residual.before = leading;
        residual.body = body;
        residual.shortcut = vec![Layer::Conv(Conv::new(output, 1).stride(stride))];
    }
    Block::Residual(residual)
}
