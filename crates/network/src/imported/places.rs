//! Where the steps of an imported network stand: stem, stages by resolution, head.

use crate::shape::Shape;
use crate::walk::{Operation, Part, Place, StageIndex, Step};

/// Gives every step its place. What a step reads decides, so that all branches of a block are in one stage.
pub(super) fn assign(steps: &mut [Step], shapes: &[Shape]) {
    let last = steps.len();
    let mut found = vec![Found::Stem { activated: false }];
    for step in steps.iter_mut() {
        let before = step.inputs.iter().map(|input| found[input.0]).max().unwrap_or(found[0]);
        let (input, output) = (shapes[step.inputs[0].0], shapes[step.output.0]);
        let after = before.after(&step.operation, input, output, step.output.0 == last);
        found.push(after);
        step.place = Place { part: after.part(), block: None };
    }
}

/// How far a value is from the image, the farthest last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Stem { activated: bool },
    Stage(usize),
    Head,
}

impl Found {
    fn after(self, operation: &Operation, input: Shape, output: Shape, is_last: bool) -> Self {
        let is_activation = matches!(operation, Operation::Relu { .. } | Operation::SharedSigns { .. });
        let is_pool = matches!(operation, Operation::MaxPool(_) | Operation::AveragePool(_));
        let leaves_one_pixel = output.pixels() == 1 && (input.pixels() > 1 || self == Self::Head);
        match self {
            _ if leaves_one_pixel || is_last => Self::Head,
            Self::Stem { .. } if is_activation => Self::Stem { activated: true },
            Self::Stem { activated: true } if !is_pool => Self::Stage(1),
            Self::Stage(stage) if 3 * output.height < 2 * input.height => Self::Stage(stage + 1),
            other => other,
        }
    }

    fn part(self) -> Part {
        match self {
            Self::Stem { .. } => Part::Stem,
            Self::Stage(stage) => Part::Stage(StageIndex(stage)),
            Self::Head => Part::Head,
        }
    }
}
