//! In which order the numbers of a map lie in memory, and what the cells under search do with maps that depends on it.

use crate::tensor::Tensor;

/// The order of a map's numbers. Both compute the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// One channel after the other.
    Planes,
    /// All channels of a pixel side by side, as convolutions in sixteen bits read them on a GPU.
    Innermost,
}

impl Order {
    /// A part of a map in memory of its own, for many readers.
    pub(super) fn apart(self, part: &Tensor) -> Tensor {
        match self {
            Self::Planes => part.contiguous(),
            Self::Innermost => outermost(&innermost(part).contiguous()),
        }
    }

    /// The sum of so many pieces of equally many channels.
    pub(super) fn sum_of(self, map: &Tensor, pieces: i64) -> Tensor {
        let [batch, channels, height, width] = map.size()[..] else {
            unreachable!("maps have four dimensions")
        };
        let own = channels / pieces;
        let sum = |map: &Tensor, dimension: i64| map.sum_dim_intlist([dimension].as_slice(), false, None);
        match self {
            Self::Planes => sum(&map.reshape([batch, pieces, own, height, width]), 1),
            // A sum lies in memory as its dimensions stand.
            Self::Innermost => {
                outermost(&sum(&innermost(map).reshape([batch, height, width, pieces, own]), 3))
            }
        }
    }

    /// Filters with their inputs again for each block, times that block's factor: (outputs, blocks, 1, 1, 1).
    pub(super) fn repeated(self, filters: &Tensor, factors: &Tensor) -> Tensor {
        let [outputs, _, height, width] = filters.size()[..] else {
            unreachable!("filters have four dimensions")
        };
        match self {
            Self::Planes => (filters.unsqueeze(1) * factors).view([outputs, -1, height, width]),
            Self::Innermost => {
                let factors = factors.view([outputs, 1, 1, -1, 1]);
                outermost(&(innermost(filters).unsqueeze(3) * factors).reshape([outputs, height, width, -1]))
            }
        }
    }
}

/// A view with channels as the last dimension.
fn innermost(map: &Tensor) -> Tensor {
    map.permute([0, 2, 3, 1])
}

/// The same view back.
fn outermost(map: &Tensor) -> Tensor {
    map.permute([0, 3, 1, 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Kind, to_floats};

    /// Numbers from 0 on in the order of planes, in memory in the given one.
    fn counted(order: Order, size: [i64; 4]) -> Tensor {
        let map = Tensor::from_slice(&(0..size.iter().product::<i64>()).collect::<Vec<_>>());
        order.apart(&map.to_kind(Kind::Float).view(size))
    }

    #[test]
    fn orders_compute_the_same_and_keep_their_memory() {
        let results = [Order::Planes, Order::Innermost].map(|order| {
            let map = counted(order, [2, 6, 3, 2]);
            let factors = counted(Order::Planes, [6, 4, 1, 1]).unsqueeze(4);
            let all = [
                order.apart(&map.narrow(1, 2, 3)),
                order.sum_of(&map, 3),
                order.repeated(&counted(order, [6, 5, 3, 3]), &factors),
            ];
            for result in &all {
                let as_stored = match order {
                    Order::Planes => result.shallow_clone(),
                    Order::Innermost => innermost(result),
                };
                assert!(as_stored.is_contiguous(), "{order:?}");
            }
            all.map(|result| (result.size(), to_floats(&result)))
        });
        assert_eq!(results[0], results[1]);
        // Pieces of two channels: 0, 2 and 4 of the first pixel are 0, 12 and 24.
        assert_eq!(results[0][1].1[0], 36.0);
        assert_eq!(results[0][2].0, [6, 20, 3, 3]);
    }
}
