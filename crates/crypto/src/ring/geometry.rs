//! The shape of a convolution, checked once: whoever holds a [`ConvGeometry`] needs no further checks.

/// Height and width, of an image or of anything that moves over one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Extent {
    /// The same in both directions.
    pub const fn square(side: usize) -> Self {
        Self { height: side, width: side }
    }

    /// Height times width; wraps only for extents that no [`ConvGeometry`] admits.
    pub const fn area(self) -> usize {
        self.height.wrapping_mul(self.width)
    }
}

/// What a convolution is asked to be, before anyone has checked that it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvShape {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// The input image.
    pub input: Extent,
    /// The filter.
    pub filter: Extent,
    /// Input steps from one output position to the next.
    pub stride: Extent,
    /// Rows and columns of zeros on each side of the image.
    pub padding: Extent,
    /// Input steps from one filter tap to the next.
    pub dilation: Extent,
    /// Channel groups that do not see each other; equal to the channels for a depthwise convolution.
    pub groups: usize,
}

/// A convolution whose shape is consistent and whose sizes fit the machine.
///
/// Tensors are in channel, row, column order: input `[in_channels][height][width]`, weights
/// `[out_channels][in_channels / groups][filter height][filter width]`. A batch puts images one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvGeometry {
    shape: ConvShape,
    output: Extent,
}

impl ConvGeometry {
    /// Checks the shape.
    ///
    /// # Errors
    /// When a size is zero, the groups do not divide the channels, the filter does not fit the padded image, or
    /// a tensor would not fit the address space.
    pub fn new(shape: ConvShape) -> Result<Self, GeometryError> {
        check_sizes(&shape)?;
        for (role, channels) in [("input", shape.in_channels), ("output", shape.out_channels)] {
            if !channels.is_multiple_of(shape.groups) {
                return Err(GeometryError::GroupsDoNotDivide { groups: shape.groups, role, channels });
            }
        }
        let along = |axis, pick: fn(Extent) -> usize| {
            output_length(
                axis,
                pick(shape.input),
                pick(shape.padding),
                pick(shape.filter),
                pick(shape.dilation),
                pick(shape.stride),
            )
        };
        let output = Extent {
            height: along("rows", |extent| extent.height)?,
            width: along("columns", |extent| extent.width)?,
        };
        let geometry = Self { shape, output };
        geometry.check_products().ok_or(GeometryError::TooLarge)?;
        Ok(geometry)
    }

    /// A convolution with a square filter on a square image, padded by half the filter.
    ///
    /// # Errors
    /// As for [`ConvGeometry::new`].
    pub fn square(
        in_channels: usize,
        out_channels: usize,
        side: usize,
        filter: usize,
        stride: usize,
    ) -> Result<Self, GeometryError> {
        Self::new(ConvShape {
            in_channels,
            out_channels,
            input: Extent::square(side),
            filter: Extent::square(filter),
            stride: Extent::square(stride),
            padding: Extent::square(filter / 2),
            dilation: Extent::square(1),
            groups: 1,
        })
    }

    /// A fully connected layer: a 1x1 convolution of a one-pixel image.
    ///
    /// # Errors
    /// As for [`ConvGeometry::new`].
    pub fn fully_connected(inputs: usize, outputs: usize) -> Result<Self, GeometryError> {
        Self::square(inputs, outputs, 1, 1, 1)
    }

    /// The shape that was checked.
    pub fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// Height and width of the output.
    pub fn output(&self) -> Extent {
        self.output
    }

    /// Height and width of the input with its border of zeros.
    pub fn padded_input(&self) -> Extent {
        Extent {
            height: self.shape.input.height + 2 * self.shape.padding.height,
            width: self.shape.input.width + 2 * self.shape.padding.width,
        }
    }

    /// Input channels that one output channel sees.
    pub fn in_channels_per_group(&self) -> usize {
        self.shape.in_channels / self.shape.groups
    }

    /// Output channels of one group.
    pub fn out_channels_per_group(&self) -> usize {
        self.shape.out_channels / self.shape.groups
    }

    /// Values in one input image.
    pub fn input_len(&self) -> usize {
        self.shape.in_channels * self.shape.input.area()
    }

    /// Values in one output image.
    pub fn output_len(&self) -> usize {
        self.shape.out_channels * self.output.area()
    }

    /// Products summed into one output value.
    pub fn taps(&self) -> usize {
        self.in_channels_per_group() * self.shape.filter.area()
    }

    /// Weights of the layer.
    pub fn weight_len(&self) -> usize {
        self.shape.out_channels * self.taps()
    }

    /// Multiply-adds for one image, those with the zero border included.
    pub fn multiply_adds(&self) -> u64 {
        self.output_len() as u64 * self.taps() as u64
    }

    /// Computes every product that the getters and the kernels form, with room for words of 64 bytes.
    fn check_products(&self) -> Option<()> {
        let shape = &self.shape;
        let padded = Extent {
            height: shape.padding.height.checked_mul(2)?.checked_add(shape.input.height)?,
            width: shape.padding.width.checked_mul(2)?.checked_add(shape.input.width)?,
        };
        let limit = isize::MAX.cast_unsigned() / 64;
        let fits = |factors: [usize; 3]| {
            let product = factors.into_iter().try_fold(1_usize, usize::checked_mul)?;
            (product <= limit).then_some(product)
        };
        fits([
            shape.in_channels.checked_add(4)?,
            padded.height.checked_add(64)?,
            padded.width.checked_add(64)?,
        ])?;
        fits([shape.out_channels.checked_add(64)?, self.output.height, self.output.width])?;
        let area = fits([shape.filter.height, shape.filter.width, 1])?;
        fits([shape.out_channels.checked_add(64)?, self.in_channels_per_group().checked_add(4)?, area])?;
        (self.output_len() as u64).checked_mul(self.taps() as u64)?;
        Some(())
    }
}

fn check_sizes(shape: &ConvShape) -> Result<(), GeometryError> {
    let sizes = [
        ("in_channels", shape.in_channels),
        ("out_channels", shape.out_channels),
        ("input height", shape.input.height),
        ("input width", shape.input.width),
        ("filter height", shape.filter.height),
        ("filter width", shape.filter.width),
        ("stride height", shape.stride.height),
        ("stride width", shape.stride.width),
        ("dilation height", shape.dilation.height),
        ("dilation width", shape.dilation.width),
        ("groups", shape.groups),
    ];
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some(&(what, _)) => Err(GeometryError::Zero { what }),
        None => Ok(()),
    }
}

/// Output positions along one axis.
fn output_length(
    axis: &'static str,
    input: usize,
    padding: usize,
    filter: usize,
    dilation: usize,
    stride: usize,
) -> Result<usize, GeometryError> {
    let padded = padding.checked_mul(2).and_then(|both| both.checked_add(input));
    let reach = (filter - 1).checked_mul(dilation).and_then(|last| last.checked_add(1));
    let (padded, reach) = padded.zip(reach).ok_or(GeometryError::TooLarge)?;
    let room = padded.checked_sub(reach).ok_or(GeometryError::EmptyOutput { axis, padded, reach })?;
    Ok(room / stride + 1)
}

/// Why a shape describes no convolution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A size that must be positive is zero.
    #[error("{what} of a convolution is zero")]
    Zero {
        /// The field.
        what: &'static str,
    },
    /// Channels cannot be dealt out to the groups evenly.
    #[error("{channels} {role} channels cannot be divided into {groups} groups")]
    GroupsDoNotDivide {
        /// The groups asked for.
        groups: usize,
        /// Which channels.
        role: &'static str,
        /// How many of them there are.
        channels: usize,
    },
    /// The filter is larger than the padded image.
    #[error("the filter reaches over {reach} {axis}, the padded image has {padded}")]
    EmptyOutput {
        /// Rows or columns.
        axis: &'static str,
        /// What the image has, border included.
        padded: usize,
        /// What the dilated filter needs.
        reach: usize,
    },
    /// A tensor of the layer would not fit the address space.
    #[error("the tensors of this convolution do not fit the address space")]
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> ConvShape {
        *ConvGeometry::square(8, 12, 9, 3, 2).unwrap().shape()
    }

    #[test]
    fn output_sizes_follow_stride_padding_and_dilation() {
        let geometry = ConvGeometry::new(ConvShape {
            stride: Extent { height: 2, width: 3 },
            padding: Extent { height: 1, width: 0 },
            dilation: Extent { height: 1, width: 2 },
            groups: 4,
            ..shape()
        })
        .unwrap();
        assert_eq!(geometry.output(), Extent { height: 5, width: 2 });
        assert_eq!((geometry.in_channels_per_group(), geometry.out_channels_per_group()), (2, 3));
        assert_eq!((geometry.input_len(), geometry.output_len()), (648, 120));
        assert_eq!((geometry.taps(), geometry.weight_len(), geometry.multiply_adds()), (18, 216, 2160));
    }

    #[test]
    fn shapes_that_describe_nothing_are_refused() {
        let refused = |change: fn(&mut ConvShape)| {
            let mut shape = shape();
            change(&mut shape);
            ConvGeometry::new(shape).unwrap_err()
        };
        assert_eq!(refused(|shape| shape.stride.width = 0), GeometryError::Zero { what: "stride width" });
        assert_eq!(refused(|shape| shape.groups = 0), GeometryError::Zero { what: "groups" });
        assert_eq!(
            refused(|shape| shape.groups = 3),
            GeometryError::GroupsDoNotDivide { groups: 3, role: "input", channels: 8 }
        );
        assert_eq!(
            refused(|shape| shape.groups = 8),
            GeometryError::GroupsDoNotDivide { groups: 8, role: "output", channels: 12 }
        );
        assert_eq!(
            refused(|shape| shape.dilation.height = 6),
            GeometryError::EmptyOutput { axis: "rows", padded: 11, reach: 13 }
        );
    }

    #[test]
    fn sizes_beyond_the_address_space_are_refused() {
        let huge: [fn(&mut ConvShape); 6] = [
            |shape| shape.in_channels = usize::MAX - 7,
            |shape| shape.input.height = usize::MAX / 2,
            |shape| shape.padding.width = usize::MAX,
            |shape| shape.padding.width = usize::MAX / 4,
            |shape| shape.out_channels = 1 << 60,
            |shape| shape.dilation.width = usize::MAX,
        ];
        for change in huge {
            let mut shape = shape();
            change(&mut shape);
            shape.groups = 1;
            assert_eq!(ConvGeometry::new(shape), Err(GeometryError::TooLarge));
        }
    }
}
