//! The outline within the byte forms. Numbers are little-endian, 4 bytes each unless said otherwise.
//!
//! ```text
//! name (length, UTF-8); image: channels, height, width, ring bits, fraction, then mean and deviation per channel
//! classes; number of class names (0, or as many as classes), each (length, UTF-8)
//! weight bits (1 byte: 8 or 12); logit drop; number of steps
//! per step: name; part (1 byte: 0 stem, 1 stage, 2 head), stage, block (0 for none)
//!           number of inputs, each; channels, height, width; fraction; ring bits (1 byte each)
//!           operation (1 byte), and its fields in the order of their declaration
//! ```

use super::super::check::{MAX_NAME_BYTES, MAX_STEPS};
use super::super::{Gate, ImageFormat, LinearGeometry, ModelOperation, ModelOutline, ModelStep, WeightBits};
use super::ModelFileError;
use crate::bytes::ByteReader;
use crate::mask::{Bits, SiteMask};
use crate::shape::Shape;
use crate::spec::Pool;
use crate::walk::{ConvGeometry, Part, Place, StageIndex, ValueId};

type Outcome<T> = Result<T, ModelFileError>;

pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn new(magic: &[u8; 8], version: u32) -> Self {
        let mut writer = Self { bytes: magic.to_vec() };
        writer.bytes.extend(version.to_le_bytes());
        writer
    }

    pub(super) fn sealed(mut self) -> Vec<u8> {
        let digest = blake3::hash(&self.bytes);
        self.bytes.extend(digest.as_bytes());
        self.bytes
    }

    pub(super) fn outline(&mut self, outline: &ModelOutline) {
        self.text(&outline.name);
        self.shape(outline.input);
        self.number(outline.image_ring_bits as usize);
        self.number(outline.image.fraction as usize);
        for value in outline.image.mean.iter().chain(&outline.image.deviation) {
            self.bytes.extend(value.to_le_bytes());
        }
        self.number(outline.classes);
        self.number(outline.class_names.len());
        outline.class_names.iter().for_each(|name| self.text(name));
        self.bytes.push(match outline.weight_bits {
            WeightBits::Eight => 8,
            WeightBits::Twelve => 12,
        });
        self.number(outline.logit_drop as usize);
        self.number(outline.steps.len());
        for step in &outline.steps {
            self.step(step);
        }
    }

    fn step(&mut self, step: &ModelStep) {
        self.text(&step.name);
        let (part, stage) = match step.place.part {
            Part::Stem => (0, 0),
            Part::Stage(stage) => (1, stage.0),
            Part::Head => (2, 0),
        };
        self.bytes.push(part);
        self.number(stage);
        self.number(step.place.block.unwrap_or(0));
        self.number(step.inputs.len());
        for input in &step.inputs {
            self.number(input.0);
        }
        self.shape(step.shape);
        self.bytes.extend([step.fraction as u8, step.ring_bits as u8]);
        self.operation(&step.operation);
    }

    fn operation(&mut self, operation: &ModelOperation) {
        match operation {
            ModelOperation::Linear { geometry: LinearGeometry::Conv(conv), channel_shifts } => {
                self.bytes.push(0);
                let ConvGeometry { inputs, outputs, filter, stride, padding, dilation, groups, bias } = *conv;
                for number in [inputs, outputs, filter, stride, padding, dilation, groups] {
                    self.number(number);
                }
                self.bytes.push(u8::from(bias));
                self.shifts(channel_shifts);
            }
            ModelOperation::Linear {
                geometry: LinearGeometry::FullyConnected { inputs, outputs },
                channel_shifts,
            } => {
                self.bytes.push(1);
                self.number(*inputs);
                self.number(*outputs);
                self.shifts(channel_shifts);
            }
            ModelOperation::Add { shifts } => {
                self.bytes.push(2);
                self.shifts(shifts);
            }
            ModelOperation::Concat { shifts } => {
                self.bytes.push(3);
                self.shifts(shifts);
            }
            ModelOperation::Slice { start, channels } => {
                self.bytes.push(4);
                self.number(*start);
                self.number(*channels);
            }
            ModelOperation::DropFirstRowAndColumn => self.bytes.push(5),
            ModelOperation::SumPool(pool) => {
                self.bytes.push(6);
                self.pool(pool);
            }
            ModelOperation::GlobalSum => self.bytes.push(7),
            ModelOperation::ScalePixels { factors } => {
                self.bytes.push(8);
                self.number(factors.len());
                self.bytes.extend(factors.iter().flat_map(|factor| factor.to_le_bytes()));
            }
            ModelOperation::Activate { width, shift, ceiling, mask } => {
                self.bytes.extend([9, *width as u8, *shift as u8, u8::from(ceiling.is_some())]);
                self.bytes.extend(ceiling.iter().flat_map(|ceiling| ceiling.to_le_bytes()));
                self.mask(mask);
            }
            ModelOperation::Maximum { pool, width } => {
                self.bytes.extend([10, *width as u8]);
                self.pool(pool);
            }
            ModelOperation::Gate(gate) => {
                self.bytes.extend([11, gate.width as u8, gate.shift as u8]);
                self.number(gate.groups.len());
                for group in &gate.groups {
                    self.number(group.len());
                    group.iter().for_each(|channel| self.number(*channel));
                }
                self.bytes.push(gate.slope_bits as u8);
                self.number(gate.slopes.len());
                self.bytes.extend(gate.slopes.iter().map(|slope| *slope as u8));
                self.mask(&gate.mask);
            }
        }
    }

    fn mask(&mut self, mask: &SiteMask) {
        let (kind, bits) = match mask {
            SiteMask::KeepAll => (0, None),
            SiteMask::DropAll => (1, None),
            SiteMask::Channels(bits) => (2, Some(bits)),
            SiteMask::Pixels(bits) => (3, Some(bits)),
        };
        self.bytes.push(kind);
        self.bytes.extend(bits.into_iter().flat_map(Bits::bytes));
    }

    fn pool(&mut self, pool: &Pool) {
        for number in [pool.window, pool.stride, pool.padding] {
            self.number(number);
        }
        self.bytes.push(u8::from(pool.count_padding));
    }

    fn shifts(&mut self, shifts: &[u8]) {
        self.number(shifts.len());
        self.bytes.extend(shifts);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.bytes.extend(text.as_bytes());
    }

    fn shape(&mut self, shape: Shape) {
        for side in [shape.channels, shape.height, shape.width] {
            self.number(side);
        }
    }

    fn number(&mut self, number: usize) {
        let number = u32::try_from(number).expect("a checked outline holds no larger numbers");
        self.bytes.extend(number.to_le_bytes());
    }
}

pub(super) struct Reader<'a>(ByteReader<'a>);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(ByteReader::new(bytes))
    }

    pub(super) fn finish(self) -> Outcome<()> {
        let bytes = self.0.rest().len();
        if bytes == 0 { Ok(()) } else { Err(ModelFileError::Excess { bytes }) }
    }

    pub(super) fn take(&mut self, count: usize) -> Outcome<&'a [u8]> {
        Ok(self.0.take(count)?)
    }

    pub(super) fn number(&mut self) -> Outcome<u32> {
        Ok(self.0.number()?)
    }

    pub(super) fn outline(&mut self) -> Outcome<ModelOutline> {
        let name = self.text()?;
        let input = self.shape()?;
        let image_ring_bits = self.number()?;
        let fraction = self.number()?;
        let mean = self.floats(input.channels)?;
        let deviation = self.floats(input.channels)?;
        let classes = self.size()?;
        let class_names = self.class_names(classes)?;
        let weight_bits = match self.byte()? {
            8 => WeightBits::Eight,
            12 => WeightBits::Twelve,
            came => return Err(code("the number of weight bits", came, "8 or 12")),
        };
        let logit_drop = self.number()?;
        let count = self.size()?;
        if count > MAX_STEPS {
            let came = count as u64;
            return Err(ModelFileError::Code {
                what: "the number of steps",
                came,
                expected: "at most 40000",
            });
        }
        let steps = (0..count).map(|_| self.step()).collect::<Outcome<_>>()?;
        let image = ImageFormat { fraction, mean, deviation };
        Ok(ModelOutline {
            name,
            input,
            image,
            classes,
            class_names,
            weight_bits,
            logit_drop,
            steps,
            image_ring_bits,
        })
    }

    fn class_names(&mut self, classes: usize) -> Outcome<Vec<String>> {
        let count = self.size()?;
        if count != 0 && count != classes {
            let (what, came) = ("the number of class names", count as u64);
            return Err(ModelFileError::Code { what, came, expected: "0, or one per class" });
        }
        // Each name takes bytes of its own, so that a count without names ends at the first that is missing.
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.text()?);
        }
        Ok(names)
    }

    fn step(&mut self) -> Outcome<ModelStep> {
        let name = self.text()?;
        let place = self.place()?;
        let count = self.size()?;
        let inputs = self.0.numbers(count)?.into_iter().map(|value| ValueId(value as usize)).collect();
        let shape = self.shape()?;
        let fraction = u32::from(self.byte()?);
        let ring_bits = u32::from(self.byte()?);
        let operation = self.operation(shape)?;
        Ok(ModelStep { name, place, operation, inputs, shape, fraction, ring_bits })
    }

    fn place(&mut self) -> Outcome<Place> {
        let part = self.byte()?;
        let stage = self.size()?;
        let block = self.size()?;
        let part = match (part, stage) {
            (0, 0) => Part::Stem,
            (1, stage) if stage > 0 => Part::Stage(StageIndex(stage)),
            (2, 0) => Part::Head,
            _ => return Err(code("the part of a step", part, "0 (stem), 1 (a stage) or 2 (head)")),
        };
        Ok(Place { part, block: Some(block).filter(|block| *block > 0) })
    }

    fn operation(&mut self, shape: Shape) -> Outcome<ModelOperation> {
        Ok(match self.byte()? {
            0 => {
                let conv = ConvGeometry {
                    inputs: self.size()?,
                    outputs: self.size()?,
                    filter: self.size()?,
                    stride: self.size()?,
                    padding: self.size()?,
                    dilation: self.size()?,
                    groups: self.size()?,
                    bias: self.flag()?,
                };
                let geometry = LinearGeometry::Conv(conv);
                ModelOperation::Linear { geometry, channel_shifts: self.shifts()? }
            }
            1 => {
                let geometry = LinearGeometry::FullyConnected { inputs: self.size()?, outputs: self.size()? };
                ModelOperation::Linear { geometry, channel_shifts: self.shifts()? }
            }
            2 => ModelOperation::Add { shifts: self.shifts()? },
            3 => ModelOperation::Concat { shifts: self.shifts()? },
            4 => ModelOperation::Slice { start: self.size()?, channels: self.size()? },
            5 => ModelOperation::DropFirstRowAndColumn,
            6 => ModelOperation::SumPool(self.pool()?),
            7 => ModelOperation::GlobalSum,
            8 => {
                let count = self.size()?;
                ModelOperation::ScalePixels { factors: self.0.numbers(count)? }
            }
            9 => self.activate(shape)?,
            10 => {
                let width = u32::from(self.byte()?);
                ModelOperation::Maximum { pool: self.pool()?, width }
            }
            11 => ModelOperation::Gate(self.gate(shape)?),
            came => return Err(code("the operation of a step", came, "0 to 11")),
        })
    }

    fn activate(&mut self, shape: Shape) -> Outcome<ModelOperation> {
        let width = u32::from(self.byte()?);
        let shift = u32::from(self.byte()?);
        let ceiling = match self.flag()? {
            false => None,
            true => Some(self.0.long_number()?),
        };
        Ok(ModelOperation::Activate { width, shift, ceiling, mask: self.mask(shape)? })
    }

    fn gate(&mut self, values: Shape) -> Outcome<Gate> {
        let (width, shift) = (u32::from(self.byte()?), u32::from(self.byte()?));
        // Each group takes bytes of its own, so that a count without groups ends at the first that is missing.
        let mut groups = Vec::new();
        for _ in 0..self.size()? {
            let count = self.size()?;
            groups.push(self.0.numbers(count)?.into_iter().map(|channel| channel as usize).collect());
        }
        let slope_bits = u32::from(self.byte()?);
        let count = self.size()?;
        let slopes = self.take(count)?.iter().map(|slope| *slope as i8).collect();
        let mask = self.mask(values.with_channels(groups.len()))?;
        Ok(Gate { width, shift, groups, slope_bits, slopes, mask })
    }

    fn mask(&mut self, shape: Shape) -> Outcome<SiteMask> {
        Ok(match self.byte()? {
            0 => SiteMask::KeepAll,
            1 => SiteMask::DropAll,
            2 => SiteMask::Channels(self.bits(shape.channels as u64)?),
            3 if shape.is_sane() => SiteMask::Pixels(self.bits(shape.scalars())?),
            came => return Err(code("the kind of a mask", came, "0 to 3")),
        })
    }

    fn bits(&mut self, count: u64) -> Outcome<Bits> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Bits::from_bytes(self.take(count.div_ceil(8))?, count).ok_or(ModelFileError::Padding)
    }

    fn pool(&mut self) -> Outcome<Pool> {
        let (window, stride, padding) = (self.size()?, self.size()?, self.size()?);
        Ok(Pool { window, stride, padding, count_padding: self.flag()? })
    }

    fn shifts(&mut self) -> Outcome<Vec<u8>> {
        let count = self.size()?;
        Ok(self.take(count)?.to_vec())
    }

    fn floats(&mut self, count: usize) -> Outcome<Vec<f32>> {
        Ok(self.0.numbers(count)?.into_iter().map(f32::from_bits).collect())
    }

    fn text(&mut self) -> Outcome<String> {
        let length = self.size()?;
        if length > MAX_NAME_BYTES {
            let came = length as u64;
            return Err(ModelFileError::Code { what: "the length of a name", came, expected: "at most 512" });
        }
        let text = String::from_utf8(self.take(length)?.to_vec()).map_err(|_| ModelFileError::Text)?;
        // Refused here, before an error can quote it: names come from the peer and end on a terminal.
        if text.contains(char::is_control) { Err(ModelFileError::Text) } else { Ok(text) }
    }

    fn shape(&mut self) -> Outcome<Shape> {
        Ok(Shape::new(self.size()?, self.size()?, self.size()?))
    }

    fn size(&mut self) -> Outcome<usize> {
        Ok(self.number()? as usize)
    }

    pub(super) fn byte(&mut self) -> Outcome<u8> {
        Ok(self.0.byte()?)
    }

    fn flag(&mut self) -> Outcome<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            came => Err(code("a flag", came, "0 or 1")),
        }
    }
}

fn code(what: &'static str, came: u8, expected: &'static str) -> ModelFileError {
    ModelFileError::Code { what, came: u64::from(came), expected }
}
