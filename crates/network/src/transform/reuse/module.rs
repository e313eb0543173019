//! The layers a reuse module is made of.

use super::{Reuse, ReuseLayout};
use crate::spec::{Conv, Group, Layer, Split};
use crate::transform::TransformError;
use crate::walk::Place;

/// Makes modules for one block.
pub(super) struct Modules {
    /// The block, for errors.
    pub(super) place: Place,
    pub(super) reuse: Reuse,
}

impl Modules {
    /// What stands for a ReLU and the convolution after it. The grouped convolutions have its filter and dilation, the
    /// last one, which makes its output, its bias.
    pub(super) fn module(&self, conv: &Conv, relu: &Layer) -> Result<Vec<Layer>, TransformError> {
        let groups = match self.reuse.layout {
            ReuseLayout::Three => self.three_groups(conv, relu)?,
            ReuseLayout::Equal => self.equal_groups(conv, relu, false)?,
            ReuseLayout::EqualShortcut => self.equal_groups(conv, relu, true)?,
        };
        let mixing = Conv { bias: conv.bias, ..Conv::new(conv.out, 1) };
        Ok(vec![Layer::Split(Split { groups }), Layer::Conv(mixing)])
    }

    /// A ReLU on the last part of the channels alone.
    pub(super) fn partial_relu(&self, channels: usize, relu: &Layer) -> Result<Layer, TransformError> {
        let last = self.divide(channels, self.reuse.factor)?;
        let pass = Group { channels: channels - last, ..Group::default() };
        let active = Group { channels: last, carry: None, layers: vec![relu.clone()] };
        Ok(Layer::Split(Split { groups: vec![pass, active] }))
    }

    fn three_groups(&self, conv: &Conv, relu: &Layer) -> Result<Vec<Group>, TransformError> {
        let passed = self.divide(conv.out, 4)?;
        let active = self.divide(conv.out, self.reuse.factor)?;
        // A quarter and at most a half: something is left for the middle.
        let middle = conv.out - passed - active;
        let adapter = vec![Layer::Conv(Conv::new(active, 1))];
        Ok(vec![
            Group { channels: passed, ..Group::default() },
            Group { channels: middle, carry: None, layers: convolved(conv, middle, None) },
            Group { channels: active, carry: Some(adapter), layers: convolved(conv, active, Some(relu)) },
        ])
    }

    fn equal_groups(&self, conv: &Conv, relu: &Layer, shortcut: bool) -> Result<Vec<Group>, TransformError> {
        let factor = self.reuse.factor;
        let size = self.divide(conv.out, factor)?;
        let mut groups = vec![Group { channels: size, ..Group::default() }];
        for number in 2..=factor {
            let layers = convolved(conv, size, (number == factor).then_some(relu));
            groups.push(Group { channels: size, carry: shortcut.then(Vec::new), layers });
        }
        Ok(groups)
    }

    fn divide(&self, channels: usize, divisor: usize) -> Result<usize, TransformError> {
        if channels == 0 || !channels.is_multiple_of(divisor) {
            return Err(TransformError::Indivisible { place: self.place, channels, divisor });
        }
        Ok(channels / divisor)
    }
}

fn convolved(conv: &Conv, channels: usize, relu: Option<&Layer>) -> Vec<Layer> {
    let grouped = Conv { out: channels, bias: false, ..conv.clone() };
    let mut layers = vec![Layer::Conv(grouped), Layer::BatchNorm];
    layers.extend(relu.cloned());
    layers
}
