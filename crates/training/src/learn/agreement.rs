//! How often the signs of two channels are the same.

use network::walk::{Operation, Step};

use super::{DeviceImages, LearnError, TRIAL_BATCH};
use crate::assemble::{Mode, TrainableNetwork};
use crate::tensor::{Kind, Tensor, guarded, no_grad, to_floats};

/// For each activation with shared signs, in the order of the walk, a row for each of its channels: the share of pixels of all
/// images at which its sign is that of each other channel.
///
/// # Errors
/// When the images do not fit the network, or the device runs out of memory.
pub(crate) fn sign_agreement(
    network: &TrainableNetwork,
    images: &DeviceImages,
) -> Result<Vec<Vec<Vec<f32>>>, LearnError> {
    images.check(network)?;
    let _alone = network.device().alone();
    let is_shared = |step: &&Step| matches!(step.operation, Operation::SharedSigns { .. });
    let walk = network.spec().walk();
    let names: Vec<&str> = walk.steps().iter().filter(is_shared).map(|step| step.name.as_str()).collect();
    let mut sums: Vec<Option<Tensor>> = names.iter().map(|_| None).collect();
    let mut counts = vec![0_i64; names.len()];
    guarded(|| {
        no_grad(|| {
            for (start, count) in super::evaluate::batches(images.len(), TRIAL_BATCH) {
                network.forward_watched(
                    &images.pixels.range(start, count),
                    Mode::Evaluate,
                    &mut |step, input, _| {
                        let Some(place) = names.iter().position(|name| *name == step.name) else { return };
                        let (equal, pixels) = products(input);
                        counts[place] += pixels;
                        sums[place] = Some(match sums[place].take() {
                            Some(sum) => sum + equal,
                            None => equal,
                        });
                    },
                );
            }
        });
    })?;
    let shares = |(sum, count): (Option<Tensor>, i64)| {
        let sum = sum.expect("there are images");
        let channels = sum.size()[0] as usize;
        // A product of two signs is 1 where they are equal and -1 elsewhere.
        let shares = to_floats(&((sum / count as f64 + 1.0) / 2.0));
        shares.chunks(channels).map(<[f32]>::to_vec).collect()
    };
    Ok(sums.into_iter().zip(counts).map(shares).collect())
}

/// For each pair of channels the sum of the products of their signs, and over how many pixels.
fn products(input: &Tensor) -> (Tensor, i64) {
    let channels = input.size()[1];
    let signs = input.ge(0.0).to_kind(Kind::Float) * 2.0 - 1.0;
    let rows = signs.permute([1, 0, 2, 3]).reshape([channels, -1]);
    let pixels = rows.size()[1];
    (rows.matmul(&rows.tr()).to_kind(Kind::Double), pixels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Device;

    #[test]
    fn signs_agree_as_often_as_counting_says() {
        // Two images of three channels and two pixels each.
        let numbers = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 0.0, 2.0, -3.0, 1.0, -1.0, -2.0];
        let input = Device::Cpu.floats(&numbers, &[2, 3, 1, 2]);
        let (sums, pixels) = products(&input);
        assert_eq!(pixels, 4);
        // First and second: 1, -1, 0, 2 against 1, 1, -3, 1 agree at two of four; first and third (-1, 1, -1, -2) at none.
        assert_eq!(to_floats(&sums), [4.0, 0.0, -4.0, 0.0, 4.0, 0.0, -4.0, 0.0, 4.0]);
    }
}
