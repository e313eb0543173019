//! ResNets (He et al. 2016) in the forms the papers use, and the HybReNets of DeepReShape (section 4, Table 15).
//!
//! DeepReDuce (section 4) keeps the full resolution into the first stage. A HybReNet is a ResNet whose channels
//! grow by (alpha, beta, gamma) from stage to stage instead of by 2; growing `m` is BaseCh, growing all factors
//! alike is StageCh (DeepReShape section 2).

use super::name::{Name, parse_factors};
use super::{Parts, StemForm, ZooError};
use crate::spec::{Block, Conv, Layer, Pool, Residual};

/// What a name alone says of a ResNet, before its options.
pub(super) struct Base {
    depths: Vec<usize>,
    channels: usize,
    factors: Vec<usize>,
    convs: Convs,
    is_hybrid: bool,
    has_fixed_depths: bool,
}

/// How many 3x3 convolutions a block has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Convs {
    /// Two everywhere.
    Two,
    /// One in the first stage, two elsewhere (ResNet-9).
    OneInFirstStage,
    /// One everywhere (ResNet-6).
    One,
}

/// Recognizes `resnet18`, `hrn-5x5x3x`, `hrn-depth-1-5-5-3`.
pub(super) fn parse(family: &str) -> Option<Base> {
    let resnet = |depths: &[usize], channels, convs| Base {
        depths: depths.to_vec(),
        channels,
        factors: vec![2; depths.len() - 1],
        convs,
        is_hybrid: false,
        has_fixed_depths: false,
    };
    if let Some(depths) = family.strip_prefix("hrn-depth-") {
        let depths: Vec<usize> = depths
            .split('-')
            .map(|depth| depth.parse().ok().filter(|depth| *depth <= 1000))
            .collect::<Option<_>>()?;
        return (depths.len() == 4)
            .then(|| Base { has_fixed_depths: true, ..resnet(&depths, 16, Convs::Two) });
    }
    if let Some(factors) = family.strip_prefix("hrn-") {
        let factors = parse_factors(factors).filter(|factors| factors.len() == 3)?;
        return Some(Base { factors, is_hybrid: true, ..resnet(&[2; 4], 16, Convs::Two) });
    }
    match family.strip_prefix("resnet")? {
        "6" => Some(resnet(&[1; 4], 64, Convs::One)),
        "9" => Some(resnet(&[1; 4], 64, Convs::OneInFirstStage)),
        "10" => Some(resnet(&[1; 4], 64, Convs::Two)),
        "18" => Some(resnet(&[2; 4], 64, Convs::Two)),
        "34" => Some(resnet(&[3, 4, 6, 3], 64, Convs::Two)),
        "20" => Some(resnet(&[3; 3], 16, Convs::Two)),
        "32" => Some(resnet(&[5; 3], 16, Convs::Two)),
        "44" => Some(resnet(&[7; 3], 16, Convs::Two)),
        "56" => Some(resnet(&[9; 3], 16, Convs::Two)),
        _ => None,
    }
}

impl Base {
    pub(super) fn build(mut self, name: &mut Name) -> Result<Parts, ZooError> {
        let channels = name.number("m", self.channels)?;
        self.take_shape_options(name)?;
        let stem = StemForm::option(name)?;
        let mut stages = Vec::with_capacity(self.depths.len());
        let mut input = channels;
        let mut output = channels;
        for (index, depth) in self.depths.iter().enumerate() {
            if index > 0 {
                output = output.saturating_mul(self.factors[index - 1]);
            }
            let convs = match self.convs {
                Convs::One => 1,
                Convs::OneInFirstStage if index == 0 => 1,
                _ => 2,
            };
            let mut blocks = Vec::with_capacity(*depth);
            for number in 0..*depth {
                let stride = if index > 0 && number == 0 { 2 } else { 1 };
                blocks.push(basic_block(input, output, stride, convs));
                input = output;
            }
            stages.push(blocks);
        }
        Ok(Parts::pooled(stem_layers(stem, channels), stages))
    }

    fn take_shape_options(&mut self, name: &mut Name) -> Result<(), ZooError> {
        if self.is_hybrid {
            let base = name.choice("base", &[("resnet18", [2, 2, 2, 2]), ("resnet34", [3, 4, 6, 3])])?;
            self.depths = base.to_vec();
        } else if !self.has_fixed_depths
            && let Some(factors) = name.factors("factors")?
        {
            if factors.len() != self.factors.len() {
                let expected = format!("{} factors, one per step between stages", self.factors.len());
                return Err(name.bad("factors", format!("{factors:?}"), expected));
            }
            self.factors = factors;
        }
        if !self.has_fixed_depths
            && let Some(depths) = name.counts("depths")?
        {
            if depths.len() != self.depths.len() || depths.contains(&0) {
                let expected = format!("{} numbers of at least 1", self.depths.len());
                return Err(name.bad("depths", format!("{depths:?}"), expected));
            }
            self.depths = depths;
        }
        Ok(())
    }
}

fn stem_layers(form: StemForm, channels: usize) -> Vec<Layer> {
    match form {
        StemForm::Cifar => vec![Layer::Conv(Conv::new(channels, 3)), Layer::BatchNorm, Layer::Relu],
        StemForm::ImageNet => vec![
            Layer::Conv(Conv::new(channels, 7).stride(2)),
            Layer::BatchNorm,
            Layer::Relu,
            Layer::MaxPool(Pool::new(3, 2).padding(1)),
        ],
    }
}

fn basic_block(input: usize, output: usize, stride: usize, convs: usize) -> Block {
    let mut body = vec![Layer::Conv(Conv::new(output, 3).stride(stride)), Layer::BatchNorm];
    for _ in 1..convs {
        body.extend([Layer::Relu, Layer::Conv(Conv::new(output, 3)), Layer::BatchNorm]);
    }
    let shortcut = if stride == 1 && input == output {
        Vec::new()
    } else {
        vec![Layer::Conv(Conv::new(output, 1).stride(stride)), Layer::BatchNorm]
    };
    Block::Residual(Residual { before: Vec::new(), body, shortcut, after_sum: vec![Layer::Relu] })
}
