//! Windows as the protocol knows them: square filters, the same padding on all sides, one stride.
//!
//! A filter of another form lies inside a square one that is zero elsewhere. Its place `o` in the square and the padding `P`
//! are chosen so that every output reads the same pixels, `P - o d = top` for dilation `d`, and that as many outputs come
//! out; the smallest square that does both is taken. So a 1x7 filter becomes a 7x7 one, and a padding of one zero below and
//! to the right becomes one more row and column of the filter. Zeros cost work on the server and nothing else.

use network::shape::{MAX_SIDE, Shape};

/// Filters larger than this are not worth their zeros.
const MAX_FILTER: usize = 64;

/// A window that slides over a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Rows and columns of the filter.
    pub(crate) filter: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    /// Zeros above and left; negative where rows and columns are cut off.
    pub(crate) before: [i64; 2],
    /// Zeros below and right.
    pub(crate) after: [i64; 2],
}

/// A square window that does the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Square {
    pub(crate) filter: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) padding: usize,
    /// Where the filter lies in the square.
    pub(crate) place: [usize; 2],
}

impl Window {
    /// One pixel, as it is.
    pub(crate) const PIXEL: Self =
        Self { filter: [1; 2], stride: [1; 2], dilation: [1; 2], before: [0; 2], after: [0; 2] };

    /// Pixels from the first tap to the last, along one axis.
    fn span(&self, axis: usize) -> i64 {
        (self.dilation[axis] * (self.filter[axis] - 1) + 1) as i64
    }

    /// Rows and columns that come out; nothing where the window does not fit.
    pub(crate) fn output(&self, input: Shape) -> Option<[usize; 2]> {
        let side = |axis: usize, length: usize| {
            let room = length as i64 + self.before[axis] + self.after[axis] - self.span(axis);
            (room >= 0).then(|| room as usize / self.stride[axis] + 1)
        };
        Some([side(0, input.height)?, side(1, input.width)?])
    }

    /// One window of single pixels that does what two do one after the other; nothing where none does, as where zeros are
    /// added to a map that was cut.
    pub(crate) fn then(&self, second: Self, input: Shape) -> Option<Self> {
        let [height, width] = self.output(input)?;
        let outputs = second.output(Shape { height, width, ..input })?;
        let mut joined = *self;
        for (axis, length) in [(0, input.height), (1, input.width)] {
            let parts = |window: &Self| (window.stride[axis], window.before[axis], window.after[axis]);
            let (one, two) = (parts(self), parts(&second));
            let cuts = |(_, before, after): (usize, i64, i64)| before <= 0 && after <= 0;
            let pads = |(stride, before, after): (usize, i64, i64)| stride == 1 && before >= 0 && after >= 0;
            (joined.stride[axis], joined.before[axis], joined.after[axis]) = match (one, two) {
                (one, (1, 0, 0)) => one,
                ((1, 0, 0), two) => two,
                (one, two) if pads(one) && pads(two) => (1, one.1 + two.1, one.2 + two.2),
                (one, two) if cuts(one) && cuts(two) => {
                    let stride = one.0 * two.0;
                    let before = one.1 + two.1 * one.0 as i64;
                    (stride, before, ((outputs[axis] - 1) * stride + 1) as i64 - length as i64 - before)
                }
                _ => return None,
            };
        }
        Some(joined)
    }

    /// The smallest square window that does the same on a map of this size.
    pub(crate) fn square(&self, input: Shape) -> Option<Square> {
        let output = self.output(input)?;
        let stride = self.one_stride(output)?;
        let dilation = self.one_dilation()?;
        let most = self.before.iter().copied().max()?.max(0) as usize + MAX_FILTER;
        let mut best: Option<Square> = None;
        for padding in 0..=most {
            let Some(found) = self.with_padding(input, output, stride, dilation, padding) else { continue };
            if best.is_none_or(|best| found.filter < best.filter) {
                best = Some(found);
            }
        }
        best
    }

    fn with_padding(
        &self,
        input: Shape,
        output: [usize; 2],
        stride: usize,
        dilation: usize,
        padding: usize,
    ) -> Option<Square> {
        let place = |axis: usize| {
            let distance = usize::try_from(padding as i64 - self.before[axis]).ok()?;
            distance.is_multiple_of(dilation).then(|| distance / dilation)
        };
        let place = [place(0)?, place(1)?];
        let least = (place[0] + self.filter[0]).max(place[1] + self.filter[1]);
        let fits = |filter: usize| {
            let side = |length: usize, wanted: usize| {
                let room = (length + 2 * padding).checked_sub(dilation * (filter - 1) + 1);
                room.is_some_and(|room| room / stride + 1 == wanted)
            };
            side(input.height, output[0]) && side(input.width, output[1])
        };
        let filter = (least..=least + MAX_FILTER).find(|filter| fits(*filter))?;
        let is_usable = filter <= MAX_FILTER.max(self.filter[0]).max(self.filter[1]) && padding <= MAX_SIDE;
        is_usable.then_some(Square { filter, stride, dilation, padding, place })
    }

    /// The stride of both axes; an axis with a single output may have any.
    fn one_stride(&self, output: [usize; 2]) -> Option<usize> {
        match (output, self.stride) {
            (_, [rows, columns]) if rows == columns => Some(rows),
            ([1, _], [_, columns]) => Some(columns),
            ([_, 1], [rows, _]) => Some(rows),
            _ => None,
        }
    }

    /// The dilation of both axes; an axis with a single tap may have any.
    fn one_dilation(&self) -> Option<usize> {
        match (self.filter, self.dilation) {
            ([1, 1], _) => Some(1),
            (_, [rows, columns]) if rows == columns => Some(rows),
            ([1, _], [_, columns]) => Some(columns),
            ([_, 1], [rows, _]) => Some(rows),
            _ => None,
        }
    }

    /// The same window with its distances between taps filled by zeros, and the filter's new size.
    pub(crate) fn undilated(&self) -> Self {
        let filter = [self.span(0) as usize, self.span(1) as usize];
        Self { filter, dilation: [1; 2], ..*self }
    }
}

impl Square {
    /// The weights of a filter at its place in the square, zeros elsewhere. Filters lie one after the other.
    pub(crate) fn fill(&self, weights: &[f32], filter: [usize; 2]) -> Vec<f32> {
        if filter == [self.filter; 2] {
            return weights.to_vec();
        }
        let area = filter[0] * filter[1];
        let mut filled = Vec::with_capacity(weights.len() / area * self.filter * self.filter);
        for map in weights.chunks_exact(area) {
            let start = filled.len();
            filled.resize(start + self.filter * self.filter, 0.0);
            for (row, line) in map.chunks_exact(filter[1]).enumerate() {
                let at = start + (self.place[0] + row) * self.filter + self.place[1];
                filled[at..at + filter[1]].copy_from_slice(line);
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(filter: [usize; 2], stride: usize, before: [i64; 2], after: [i64; 2]) -> Window {
        Window { filter, stride: [stride; 2], dilation: [1; 2], before, after }
    }

    /// What each output reads of a line, tap by tap; nothing for zeros.
    fn reads(
        length: usize,
        filter: usize,
        stride: usize,
        dilation: usize,
        before: i64,
        outputs: usize,
    ) -> Vec<Vec<Option<usize>>> {
        let place = |output: usize, tap: usize| {
            let place = (output * stride + tap * dilation) as i64 - before;
            usize::try_from(place).ok().filter(|place| *place < length)
        };
        (0..outputs).map(|output| (0..filter).map(|tap| place(output, tap)).collect()).collect()
    }

    #[test]
    fn squares_read_what_the_window_reads() {
        for filter in [[1, 1], [1, 3], [3, 1], [2, 2], [3, 3], [1, 7], [5, 3]] {
            for stride in 1..=2 {
                for dilation in 1..=2 {
                    for (before, after) in [
                        ([0, 0], [0, 0]),
                        ([0, 0], [1, 1]),
                        ([1, 1], [1, 1]),
                        ([1, 0], [1, 0]),
                        ([0, 3], [0, 3]),
                        ([2, 1], [1, 2]),
                        ([-1, -1], [0, 0]),
                    ] {
                        let window =
                            Window { dilation: [dilation; 2], ..window(filter, stride, before, after) };
                        let input = Shape::new(1, 16, 16);
                        let Some(output) = window.output(input) else { continue };
                        let Some(square) = window.square(input) else { continue };
                        for (axis, length) in [(0, 16), (1, 16)] {
                            let own =
                                reads(length, filter[axis], stride, dilation, before[axis], output[axis]);
                            let other = reads(
                                length,
                                square.filter,
                                square.stride,
                                square.dilation,
                                square.padding as i64,
                                output[axis],
                            );
                            for (own, other) in own.iter().zip(&other) {
                                assert_eq!(
                                    own[..],
                                    other[square.place[axis]..][..filter[axis]],
                                    "{window:?} {square:?}"
                                );
                            }
                            let outputs =
                                (length + 2 * square.padding - square.dilation * (square.filter - 1) - 1)
                                    / square.stride
                                    + 1;
                            assert_eq!(outputs, output[axis]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn squares_are_as_small_as_they_can_be() {
        let input = Shape::new(3, 32, 32);
        let usual = window([3, 3], 1, [1, 1], [1, 1]).square(input).unwrap();
        assert_eq!((usual.filter, usual.padding, usual.place), (3, 1, [0, 0]));
        let row = window([1, 7], 1, [0, 3], [0, 3]).square(input).unwrap();
        assert_eq!((row.filter, row.padding, row.place), (7, 3, [3, 0]));
        // What TensorFlow calls SAME, with stride 2.
        let uneven = window([3, 3], 2, [0, 0], [1, 1]).square(input).unwrap();
        assert_eq!((uneven.filter, uneven.padding), (4, 1));
        let unequal = Window { stride: [1, 2], ..window([3, 3], 1, [1, 1], [1, 1]) };
        assert!(unequal.square(input).is_none());
        assert!(window([3, 3], 1, [0, 0], [0, 2]).square(input).is_none(), "more columns than rows come out");
    }

    #[test]
    fn windows_of_pixels_are_joined() {
        let input = Shape::new(1, 16, 12);
        let rows = Window { stride: [2, 1], before: [-1, 0], after: [-1, 0], ..Window::PIXEL };
        let columns = Window { stride: [1, 3], after: [0, -2], ..Window::PIXEL };
        let both = rows.then(columns, input).unwrap();
        assert_eq!(both.output(input), Some([7, 4]));
        let again = rows.then(rows, input).unwrap();
        // Rows 1, 3, ... 13, and of these the second, fourth and sixth.
        assert_eq!((again.before[0], again.stride[0]), (-3, 4));
        assert_eq!(again.output(input), Some([3, 12]));
        let padding = Window { before: [1; 2], after: [1; 2], ..Window::PIXEL };
        assert!(rows.then(padding, input).is_none());
        assert_eq!(padding.then(padding, input).unwrap().before, [2; 2]);
    }

    #[test]
    fn weights_lie_at_their_place() {
        let square = Square { filter: 3, stride: 1, dilation: 1, padding: 1, place: [1, 0] };
        let filled = square.fill(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1, 3]);
        assert_eq!(
            filled,
            [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 5.0, 6.0, 0.0, 0.0, 0.0]
        );
    }
}
