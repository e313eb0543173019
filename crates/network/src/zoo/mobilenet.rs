//! MobileNetV1 (Howard et al. 2017) and MobileNetV2 (Sandler et al. 2018).
//!
//! Stages are the runs of blocks that share a resolution in the ImageNet form, five in each network, as
//! DeepReDuce numbers them (Tables 11 and 12). The CIFAR form keeps the resolution in the stem (and, for V2, in the
//! second stage).

use super::name::Name;
use super::{Parts, StemForm, ZooError};
use crate::spec::{Block, Conv, Layer, Residual};

pub(super) fn v1(name: &mut Name) -> Result<Parts, ZooError> {
    let form = StemForm::option(name)?;
    let stages: [&[usize]; 5] = [&[64], &[128, 128], &[256, 256], &[512; 6], &[1024, 1024]];
    let mut input = 32;
    let mut built = Vec::new();
    for (index, widths) in stages.into_iter().enumerate() {
        let mut blocks = Vec::new();
        for (number, &output) in widths.iter().enumerate() {
            let stride = if index > 0 && number == 0 { 2 } else { 1 };
            let mut layers =
                vec![Layer::Conv(Conv::new(input, 3).stride(stride).depthwise()), Layer::BatchNorm];
            layers.extend([Layer::Relu, Layer::Conv(Conv::new(output, 1)), Layer::BatchNorm, Layer::Relu]);
            blocks.push(Block::Plain(layers));
            input = output;
        }
        built.push(blocks);
    }
    Ok(Parts::pooled(stem(form, &Layer::Relu), built))
}

pub(super) fn v2(name: &mut Name) -> Result<Parts, ZooError> {
    let form = StemForm::option(name)?;
    let relu = name.choice("clip", &[("no", Layer::Relu.kind()), ("yes", Layer::Relu6.kind())])?;
    let relu = if relu == Layer::Relu6.kind() { Layer::Relu6 } else { Layer::Relu };
    // (expansion, channels, blocks) per stage; a stage halves the resolution once, at its beginning.
    let stages: [&[(usize, usize, usize)]; 5] =
        [&[(1, 16, 1)], &[(6, 24, 2)], &[(6, 32, 3)], &[(6, 64, 4), (6, 96, 3)], &[(6, 160, 3), (6, 320, 1)]];
    let mut input = 32;
    let mut built = Vec::new();
    for (index, groups) in stages.into_iter().enumerate() {
        let keeps_resolution = index == 0 || (index == 1 && form == StemForm::Cifar);
        let mut blocks = Vec::new();
        for &(expansion, output, count) in groups {
            for _ in 0..count {
                let stride = if blocks.is_empty() && !keeps_resolution { 2 } else { 1 };
                blocks.push(inverted_residual(input, output, stride, expansion, &relu));
                input = output;
            }
        }
        built.push(blocks);
    }
    let mut parts = Parts::pooled(stem(form, &relu), built);
    parts.head.splice(0..0, [Layer::Conv(Conv::new(1280, 1)), Layer::BatchNorm, relu]);
    Ok(parts)
}

fn stem(form: StemForm, relu: &Layer) -> Vec<Layer> {
    let stride = if form == StemForm::ImageNet { 2 } else { 1 };
    vec![Layer::Conv(Conv::new(32, 3).stride(stride)), Layer::BatchNorm, relu.clone()]
}

fn inverted_residual(input: usize, output: usize, stride: usize, expansion: usize, relu: &Layer) -> Block {
    let hidden = input * expansion;
    let mut body = Vec::new();
    if expansion > 1 {
        body.extend([Layer::Conv(Conv::new(hidden, 1)), Layer::BatchNorm, relu.clone()]);
    }
    body.extend([
        Layer::Conv(Conv::new(hidden, 3).stride(stride).depthwise()),
        Layer::BatchNorm,
        relu.clone(),
        Layer::Conv(Conv::new(output, 1)),
        Layer::BatchNorm,
    ]);
    if stride == 1 && input == output {
        Block::Residual(Residual { body, ..Residual::default() })
    } else {
        Block::Plain(body)
    }
}
