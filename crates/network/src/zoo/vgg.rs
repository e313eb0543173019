//! VGG networks (Simonyan and Zisserman 2014) with batch norm; a stage ends with its max pooling, or with an
//! average pooling, which is linear and costs no circuit (`pool=average`).
//!
//! The counts of the papers include the ReLUs of the two hidden fully connected layers (DeepReShape Table 2,
//! Sphynx Table 16), which keep their size when the convolutions are made thinner.

use super::name::Name;
use super::{Parts, ZooError};
use crate::spec::{Block, Conv, FullyConnected, Layer, Pool, Stage, Stem};

pub(super) fn build(name: &mut Name) -> Result<Parts, ZooError> {
    let convs: [usize; 5] = match name.family.as_str() {
        "vgg11" => [1, 1, 2, 2, 2],
        "vgg13" => [2, 2, 2, 2, 2],
        "vgg16" => [2, 2, 3, 3, 3],
        _ => [2, 2, 4, 4, 4],
    };
    let channels = name.number("c", 64)?;
    let hidden = name.number("hidden", 4096)?;
    let pool: fn(Pool) -> Layer =
        name.choice("pool", &[("max", Layer::MaxPool as _), ("average", Layer::AveragePool as _)])?;
    let mut stages = Vec::new();
    for (index, count) in convs.into_iter().enumerate() {
        let out = channels << index.min(3);
        let mut blocks = Vec::new();
        for number in 1..=count {
            let mut layers = vec![Layer::Conv(Conv::new(out, 3)), Layer::BatchNorm, Layer::Relu];
            if number == count {
                layers.push(pool(Pool::new(2, 2)));
            }
            blocks.push(Block::Plain(layers));
        }
        stages.push(Stage { blocks });
    }
    let mut head = Vec::new();
    if hidden > 0 {
        for _ in 0..2 {
            head.extend([Layer::FullyConnected(FullyConnected { out: hidden }), Layer::Relu]);
        }
    }
    head.push(Layer::Classifier);
    Ok(Parts { stem: Stem::default(), stages, head })
}
