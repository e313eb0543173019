//! Layers that slide a window over the map: convolutions, poolings, the factorized reduce.

use super::super::{ConvGeometry, Operation, ValueId};
use super::{Builder, MAX_WORK, Outcome};
use crate::shape::{MAX_SIDE, Shape};
use crate::spec::{Conv, FactorizedReduce, Groups, Join, Pool, SpecFault};

impl Builder {
    pub(super) fn conv(&mut self, conv: &Conv, input: ValueId) -> Outcome<ValueId> {
        let shape = self.shapes[input.0];
        let output = shape.with_channels(conv.out);
        if !output.is_sane() {
            return Err(SpecFault::Size { shape: output });
        }
        let geometry = geometry(conv, shape)?;
        let span = conv.dilation * (conv.filter - 1) + 1;
        let output = windowed(output, span, geometry.stride, geometry.padding)?;
        let work = geometry.checked_taps().and_then(|taps| taps.checked_mul(output.scalars()));
        if work.is_none_or(|work| work > MAX_WORK) {
            return Err(SpecFault::Work);
        }
        self.push(Operation::Conv(geometry), vec![input], output)
    }

    pub(super) fn pool(&mut self, operation: Operation, pool: &Pool, input: ValueId) -> Outcome<ValueId> {
        from_one_to_side("the window", pool.window)?;
        from_one_to_side("the stride", pool.stride)?;
        if pool.padding > pool.window / 2 {
            let expected = "at most half the window, so that no window lies outside the map";
            return Err(SpecFault::Parameter { what: "the padding", value: pool.padding, expected });
        }
        let output = windowed(self.shapes[input.0], pool.window, pool.stride, pool.padding)?;
        self.push(operation, vec![input], output)
    }

    pub(super) fn factorized_reduce(
        &mut self,
        reduce: &FactorizedReduce,
        input: ValueId,
    ) -> Outcome<ValueId> {
        let shape = self.shapes[input.0];
        if !shape.height.is_multiple_of(2) || !shape.width.is_multiple_of(2) || reduce.out < 2 {
            return Err(SpecFault::OddReduce { input: shape });
        }
        let first = Conv { padding: Some(0), ..Conv::new(reduce.out / 2, 1).stride(2) };
        let second = Conv { out: reduce.out - first.out, ..first.clone() };
        let straight = self.conv(&first, input)?;
        let cropped = Shape { height: shape.height - 1, width: shape.width - 1, ..shape };
        let shifted = self.push(Operation::DropFirstRowAndColumn, vec![input], cropped)?;
        let shifted = self.conv(&second, shifted)?;
        self.join(Join::Concat, vec![straight, shifted])
    }
}

/// The convolution with everything resolved, its numbers small enough to be multiplied.
fn geometry(conv: &Conv, input: Shape) -> Outcome<ConvGeometry> {
    from_one_to_side("the filter", conv.filter)?;
    from_one_to_side("the stride", conv.stride)?;
    from_one_to_side("the dilation", conv.dilation)?;
    let padding = conv.resolved_padding();
    if padding > MAX_SIDE {
        return Err(SpecFault::Parameter { what: "the padding", value: padding, expected: "at most 4096" });
    }
    let groups = match conv.groups {
        Groups::Count(count) => count,
        Groups::Depthwise => input.channels,
    };
    if groups == 0 || !input.channels.is_multiple_of(groups) || !conv.out.is_multiple_of(groups) {
        return Err(SpecFault::Groups { groups, input: input.channels, output: conv.out });
    }
    Ok(ConvGeometry {
        inputs: input.channels,
        outputs: conv.out,
        filter: conv.filter,
        stride: conv.stride,
        padding,
        dilation: conv.dilation,
        groups,
        bias: conv.bias,
    })
}

/// No window, step or distance makes sense beyond the largest map.
fn from_one_to_side(what: &'static str, value: usize) -> Outcome<()> {
    if (1..=MAX_SIDE).contains(&value) {
        return Ok(());
    }
    Err(SpecFault::Parameter { what, value, expected: "a number from 1 to 4096" })
}

/// The size after a window of `span` pixels slid over the map.
fn windowed(input: Shape, span: usize, stride: usize, padding: usize) -> Outcome<Shape> {
    let side = |length: usize| Some((length + 2 * padding).checked_sub(span)? / stride + 1);
    match (side(input.height), side(input.width)) {
        (Some(height), Some(width)) => Ok(Shape { height, width, ..input }),
        _ => Err(SpecFault::Window { span, input, padding }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_limit_there_is() {
        for fault in [
            from_one_to_side("the filter", MAX_SIDE + 1).unwrap_err(),
            geometry(&Conv { padding: Some(MAX_SIDE + 1), ..Conv::new(1, 1) }, Shape::image(8)).unwrap_err(),
        ] {
            assert!(fault.to_string().contains(&MAX_SIDE.to_string()), "{fault}");
        }
    }
}
