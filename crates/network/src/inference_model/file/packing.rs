//! Weights in fewer bytes: entropy coding by table (rANS, Duda 2013, arXiv:1311.2540), exact.
//!
//! Trained 8-bit weights have about 6 bits of entropy, and most of what can be known of a weight before it is read is
//! how large the weights of its output channel are. So channels of like magnitude share one table of frequencies, and
//! each channel names its table. What is coded is a weight's upper 8 bits; the lower four of 12-bit weights are
//! nearly uniform and stand beside as they are.
//!
//! ```text
//! 1 byte    number of tables, at most 64
//! per table first symbol (1 byte), last symbol (1 byte), then the frequency of each from first to last: below 128 in
//!           1 byte, otherwise in 2 (low 7 bits and a set bit 7, then the rest); together they are 4096
//! per linear step: biases (8 bytes each); 1 byte: 0, then weights as in version 1; or 1, then
//!           table of each output channel (1 byte each); number of words (4); state (4); words (2 each);
//!           for 12-bit weights their low four bits, two to a byte, low half first
//! ```
//!
//! The state x lies in [2^16, 2^32). A symbol with frequency f whose range begins at c turns it into
//! `(x / f) * 4096 + x % f + c`, after a word has been moved out where that would reach 2^32. Reading undoes this, last
//! symbol first, so that the writer goes backwards. It begins at 2^16 and reading must end there, without a word left:
//! given the tables, there is one way only to write a layer.

use super::super::{LinearGeometry, LinearWeights, WeightBits};
use super::outline::Reader;
use super::{ModelFileError, read_biases, read_plain_weights, write_biases, write_plain_weights};

/// Bits of the sum of a table's frequencies.
const PRECISION: u32 = 12;
const SUM: usize = 1 << PRECISION;
const LOWEST_STATE: u32 = 1 << 16;
const MAX_TABLES: usize = 64;
/// Channels of like magnitude get a table of their own from this many weights on; it takes about 350 bytes.
const WEIGHTS_PER_TABLE: u64 = 1 << 14;
/// A layer of which a byte would hold more is written plainly, so that a small file cannot ask for much memory.
const MAX_WEIGHTS_PER_BYTE: usize = 64;

const PLAIN: u8 = 0;
const CODED: u8 = 1;

type Outcome<T> = Result<T, ModelFileError>;

/// Appends the weights of all layers.
pub(super) fn write(layers: &[LinearWeights], bits: WeightBits, bytes: &mut Vec<u8>) {
    let grouping = Grouping::of(layers, bits);
    let (plain_at, mut saved) = (bytes.len(), 0);
    bytes.push(grouping.tables.len() as u8);
    grouping.tables.iter().for_each(|table| table.write(bytes));
    let tables = bytes.len() - plain_at;
    for layer in layers {
        write_biases(layer, bytes);
        let mut plain = vec![PLAIN];
        write_plain_weights(&layer.weights, bits, &mut plain);
        match grouping.coded(layer, bits).filter(|coded| coded.len() < plain.len()) {
            Some(coded) => {
                saved += plain.len() - coded.len();
                bytes.extend(coded);
            }
            None => bytes.extend(plain),
        }
    }
    if saved < tables {
        bytes.truncate(plain_at);
        bytes.push(0);
        for layer in layers {
            write_biases(layer, bytes);
            bytes.push(PLAIN);
            write_plain_weights(&layer.weights, bits, bytes);
        }
    }
}

/// Reads the weights of layers of these shapes, which belong to a checked outline.
pub(super) fn read(
    reader: &mut Reader<'_>,
    shapes: impl Iterator<Item = LinearGeometry>,
    bits: WeightBits,
) -> Outcome<Vec<LinearWeights>> {
    let count = usize::from(reader.byte()?);
    if count > MAX_TABLES {
        return Err(code("the number of tables", count, "at most 64"));
    }
    let tables = (0..count).map(|_| Ok(Table::read(reader)?.slots())).collect::<Outcome<Vec<_>>>()?;
    shapes
        .map(|geometry| {
            let biases = read_biases(reader, geometry)?;
            let weights = match reader.byte()? {
                PLAIN => read_plain_weights(reader, geometry, bits)?,
                CODED => read_coded(reader, &tables, geometry, bits)?,
                came => return Err(code("the form of a layer's weights", came.into(), "0 or 1")),
            };
            Ok(LinearWeights { weights, biases })
        })
        .collect()
}

/// Which table each channel gets, by the mean magnitude of its weights.
struct Grouping {
    /// For each class of magnitude.
    table_of_class: [u8; CLASSES],
    tables: Vec<Table>,
}

/// Mean magnitudes from 1/16 to 128, four classes to the octave.
const CLASSES: usize = 48;

impl Grouping {
    fn of(layers: &[LinearWeights], bits: WeightBits) -> Self {
        let mut counts = vec![[0_u64; 256]; CLASSES];
        for channel in layers.iter().flat_map(channels) {
            let counts = &mut counts[class(channel, bits)];
            channel.iter().for_each(|weight| counts[usize::from(symbol(*weight, bits))] += 1);
        }
        let mut grouping = Self { table_of_class: [0; CLASSES], tables: Vec::new() };
        let mut open = [0_u64; 256];
        let mut left: u64 = counts.iter().flatten().sum();
        for (class, counts) in counts.iter().enumerate() {
            open.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            grouping.table_of_class[class] = grouping.tables.len() as u8;
            let (held, here) = (open.iter().sum::<u64>(), counts.iter().sum::<u64>());
            left -= here;
            // A class that ends a group may not leave the last group short of weights.
            if held >= WEIGHTS_PER_TABLE && left >= WEIGHTS_PER_TABLE || held > 0 && left == 0 {
                grouping.tables.push(Table::fitting(&open));
                open = [0; 256];
            }
            if left == 0 {
                break;
            }
        }
        grouping
    }

    /// The coded form of a layer's weights; none where a byte would hold too many.
    fn coded(&self, layer: &LinearWeights, bits: WeightBits) -> Option<Vec<u8>> {
        let names: Vec<_> =
            channels(layer).map(|channel| self.table_of_class[class(channel, bits)]).collect();
        let starts: Vec<_> = self.tables.iter().map(Table::starts).collect();
        let (mut state, mut words) = (LOWEST_STATE, Vec::new());
        for (channel, name) in channels(layer).zip(&names).rev() {
            let (table, starts) = (&self.tables[usize::from(*name)], &starts[usize::from(*name)]);
            for weight in channel.iter().rev() {
                let symbol = usize::from(symbol(*weight, bits));
                let frequency = u32::from(table.frequencies[symbol]);
                if u64::from(state) >= u64::from(frequency) << (32 - PRECISION) {
                    words.push(state as u16);
                    state >>= 16;
                }
                state = ((state / frequency) << PRECISION) + state % frequency + u32::from(starts[symbol]);
            }
        }
        if layer.weights.len() > MAX_WEIGHTS_PER_BYTE * (4 + 2 * words.len()) {
            return None;
        }
        let mut bytes = vec![CODED];
        bytes.extend(names);
        bytes.extend(u32::try_from(words.len()).ok()?.to_le_bytes());
        bytes.extend(state.to_le_bytes());
        bytes.extend(words.iter().rev().flat_map(|word| word.to_le_bytes()));
        if bits == WeightBits::Twelve {
            let low = |weight: &i16| *weight as u8 & 0xf;
            let pair = |pair: &[i16]| low(&pair[0]) | pair.get(1).map_or(0, low) << 4;
            bytes.extend(layer.weights.chunks(2).map(pair));
        }
        Some(bytes)
    }
}

/// The weights of each output channel.
fn channels(layer: &LinearWeights) -> std::slice::ChunksExact<'_, i16> {
    let taps = layer.weights.len() / layer.biases.len().max(1);
    layer.weights.chunks_exact(taps.max(1))
}

/// What of a weight is coded: its upper 8 bits, zero in the middle.
fn symbol(weight: i16, bits: WeightBits) -> u8 {
    let upper = if bits == WeightBits::Twelve { weight >> 4 } else { weight };
    (upper + 128) as u8
}

fn class(channel: &[i16], bits: WeightBits) -> usize {
    let magnitude = |weight: &i16| u64::from(symbol(*weight, bits).abs_diff(128));
    let sixteenths = channel.iter().map(magnitude).sum::<u64>() * 16 / channel.len() as u64;
    let Some(octave) = sixteenths.checked_ilog2() else { return 0 };
    let quarter = (sixteenths << 2 >> octave) & 3;
    octave as usize * 4 + quarter as usize
}

/// How often each symbol is expected, in 4096 parts.
struct Table {
    frequencies: [u16; 256],
}

impl Table {
    /// The frequencies nearest to counts of which one at least is not zero; a symbol that occurs keeps one part.
    fn fitting(counts: &[u64; 256]) -> Self {
        let total: u64 = counts.iter().sum();
        let share = |count: u64| match count {
            0 => 0,
            count => ((u128::from(count) * SUM as u128 / u128::from(total)) as u16).max(1),
        };
        let mut frequencies = counts.map(share);
        let given: usize = frequencies.iter().map(|share| usize::from(*share)).sum();
        for _ in given..SUM {
            // Most is lost where a whole part is missing from a small share.
            let lacking = |symbol: &usize| counts[*symbol] * 4096 / (u64::from(frequencies[*symbol]) + 1);
            let symbol = (0..256).max_by_key(lacking).expect("there are symbols");
            frequencies[symbol] += 1;
        }
        for _ in SUM..given {
            *frequencies.iter_mut().max().expect("there are symbols") -= 1;
        }
        Self { frequencies }
    }

    /// Where each symbol's range begins.
    fn starts(&self) -> [u16; 256] {
        let mut next = 0;
        self.frequencies.map(|frequency| {
            next += frequency;
            next - frequency
        })
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let occurs = |frequency: &u16| *frequency > 0;
        let first = self.frequencies.iter().position(occurs).expect("frequencies sum to 4096");
        let last = self.frequencies.iter().rposition(occurs).expect("frequencies sum to 4096");
        bytes.extend([first as u8, last as u8]);
        for frequency in &self.frequencies[first..=last] {
            match *frequency {
                short @ 0..128 => bytes.push(short as u8),
                long => bytes.extend([long as u8 | 0x80, (long >> 7) as u8]),
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Outcome<Self> {
        let (first, last) = (reader.byte()?, reader.byte()?);
        let mut frequencies = [0; 256];
        for symbol in first..=last {
            let low = u16::from(reader.byte()?);
            let high = if low & 0x80 == 0 { 0 } else { u16::from(reader.byte()?) };
            frequencies[usize::from(symbol)] = low & 0x7f | high << 7;
        }
        let sum: usize = frequencies.iter().map(|frequency| usize::from(*frequency)).sum();
        if sum != SUM {
            return Err(code("the sum of a table's frequencies", sum, "4096"));
        }
        Ok(Self { frequencies })
    }

    /// For each of the 4096 parts: its symbol (8 bits), that symbol's frequency less one and the part's place in
    /// its range (12 bits each).
    fn slots(&self) -> Vec<u32> {
        let ranges = self.frequencies.iter().zip(0_u32..);
        ranges
            .flat_map(|(frequency, symbol)| {
                let frequency = u32::from(*frequency);
                (0..frequency).map(move |place| symbol | (frequency - 1) << 8 | place << 20)
            })
            .collect()
    }
}

fn read_coded(
    reader: &mut Reader<'_>,
    tables: &[Vec<u32>],
    geometry: LinearGeometry,
    bits: WeightBits,
) -> Outcome<Vec<i16>> {
    let names = reader.take(geometry.outputs())?;
    if let Some(name) = names.iter().find(|name| usize::from(**name) >= tables.len()) {
        return Err(code("the table of a channel", usize::from(*name), "one of those in the file"));
    }
    let words = reader.number()? as usize;
    let state = reader.number()?;
    let words = reader.take(words.saturating_mul(2))?;
    let count = geometry.outputs() * geometry.taps();
    if count > MAX_WEIGHTS_PER_BYTE * (4 + words.len()) {
        let expected = count.div_ceil(MAX_WEIGHTS_PER_BYTE) - 4;
        return Err(ModelFileError::Truncated { expected, came: words.len() });
    }
    if state < LOWEST_STATE {
        return Err(code("the state of a layer's code", state as usize, "at least 65536"));
    }
    let mut code = Code { state, words: words.as_chunks().0.iter(), is_short: false };
    let mut weights = Vec::with_capacity(count);
    for name in names {
        code.read_channel(&tables[usize::from(*name)], geometry.taps(), &mut weights);
    }
    code.finish()?;
    if bits == WeightBits::Twelve {
        add_low_bits(&mut weights, reader.take(count.div_ceil(2))?)?;
    }
    Ok(weights)
}

/// The state of reading. Where words are missing it goes on with zeros and remembers it.
struct Code<'a> {
    state: u32,
    words: std::slice::Iter<'a, [u8; 2]>,
    is_short: bool,
}

impl Code<'_> {
    fn read_channel(&mut self, slots: &[u32], taps: usize, weights: &mut Vec<i16>) {
        let slots: &[u32; SUM] = slots.try_into().expect("a table has 4096 parts");
        let mut state = self.state;
        weights.extend((0..taps).map(|_| {
            let slot = slots[state as usize % SUM];
            state = ((slot >> 8 & 0xfff) + 1) * (state >> PRECISION) + (slot >> 20);
            if state < LOWEST_STATE {
                let word = self.words.next();
                self.is_short |= word.is_none();
                state = state << 16 | word.map_or(0, |word| u32::from(u16::from_le_bytes(*word)));
            }
            (slot & 0xff) as i16 - 128
        }));
        self.state = state;
    }

    fn finish(self) -> Outcome<()> {
        let is_whole = self.state == LOWEST_STATE && !self.is_short && self.words.len() == 0;
        if is_whole { Ok(()) } else { Err(ModelFileError::CodedWeights) }
    }
}

fn add_low_bits(weights: &mut [i16], low: &[u8]) -> Outcome<()> {
    for (pair, byte) in weights.chunks_mut(2).zip(low) {
        pair[0] = pair[0] << 4 | i16::from(byte & 0xf);
        match pair.get_mut(1) {
            Some(second) => *second = *second << 4 | i16::from(byte >> 4),
            None if byte >> 4 == 0 => {}
            None => return Err(ModelFileError::Padding),
        }
    }
    Ok(())
}

fn code(what: &'static str, came: usize, expected: &'static str) -> ModelFileError {
    ModelFileError::Code { what, came: came as u64, expected }
}

#[cfg(test)]
mod tests;
