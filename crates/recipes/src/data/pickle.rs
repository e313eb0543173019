//! A reader for exactly the pickles of the CIFAR python releases.
//!
//! Pickles are programs; this reader knows the opcodes that Python 2 wrote into those files (protocol 2, numpy arrays
//! of bytes) and three global names, and refuses everything else. Nothing is ever called.

use std::collections::{BTreeMap, HashMap};

/// The most opcodes, and so the most values; the files have about 300,000.
const MAX_OPCODES: usize = 1 << 21;
/// The most collections inside one another; the files have three. Dropping a value walks down them.
const MAX_DEPTH: usize = 8;
/// The longest text that can be recalled; a recall is two bytes long, so this is how much a short file can grow.
const MAX_RECALLED_BYTES: usize = 100;

/// A value of a pickle.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Nothing,
    Truth(bool),
    Integer(i64),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Tuple(Vec<Value>),
    Dictionary(BTreeMap<String, Value>),
    /// A matrix of bytes, row by row.
    Matrix {
        rows: usize,
        columns: usize,
        bytes: Vec<u8>,
    },
    Global(&'static str),
    /// An array or a kind of number before its state is set.
    Unbuilt(&'static str),
}

const RECONSTRUCT: &str = "numpy.core.multiarray _reconstruct";
const ARRAY: &str = "numpy ndarray";
const KIND: &str = "numpy dtype";

/// Reads the one value of a pickle.
pub(super) fn read(bytes: &[u8]) -> Result<Value, String> {
    Machine { bytes, position: 0, stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() }.run()
}

struct Machine<'a> {
    bytes: &'a [u8],
    position: usize,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
}

impl<'a> Machine<'a> {
    fn run(mut self) -> Result<Value, String> {
        for _ in 0..MAX_OPCODES {
            let place = self.position;
            let opcode = self.byte()?;
            if opcode == b'.' {
                let is_whole = self.marks.is_empty() && self.position == self.bytes.len();
                return match (self.stack.pop(), self.stack.is_empty() && is_whole) {
                    (Some(value), true) => Ok(value),
                    _ => Err("it does not end where it should".to_owned()),
                };
            }
            let known = self.numbers(opcode)? || self.collections(opcode)? || self.objects(opcode)?;
            if !known {
                return Err(format!("opcode {opcode:#04x} at byte {place} is none that the release uses"));
            }
        }
        Err(format!("it has more than {MAX_OPCODES} opcodes"))
    }

    /// Opcodes that push a simple value.
    fn numbers(&mut self, opcode: u8) -> Result<bool, String> {
        let value = match opcode {
            b'N' => Value::Nothing,
            0x88 => Value::Truth(true),
            0x89 => Value::Truth(false),
            b'K' => Value::Integer(i64::from(self.byte()?)),
            b'M' => Value::Integer(i64::from(u16::from_le_bytes(self.array()?))),
            b'J' => Value::Integer(i64::from(i32::from_le_bytes(self.array()?))),
            b'U' => {
                let length = usize::from(self.byte()?);
                Value::Bytes(self.take(length)?.to_vec())
            }
            b'T' => {
                let length =
                    usize::try_from(i32::from_le_bytes(self.array()?)).map_err(|_| "a negative length")?;
                Value::Bytes(self.take(length)?.to_vec())
            }
            _ => return Ok(false),
        };
        self.stack.push(value);
        Ok(true)
    }

    /// Opcodes of lists, tuples, dictionaries and the memo.
    fn collections(&mut self, opcode: u8) -> Result<bool, String> {
        match opcode {
            0x80 if self.byte()? == 2 => {}
            0x80 => return Err("it is not of protocol 2".to_owned()),
            b'(' => self.marks.push(self.stack.len()),
            b'}' => self.stack.push(Value::Dictionary(BTreeMap::new())),
            b']' => self.stack.push(Value::List(Vec::new())),
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            b'e' => {
                let items = self.marked()?;
                self.append(items)?;
            }
            b's' => {
                let items = self.several(2)?;
                self.set_items(items)?;
            }
            b'u' => {
                let items = self.marked()?;
                self.set_items(items)?;
            }
            b't' => {
                let items = self.marked()?;
                self.stack.push(Value::Tuple(shallow(items)?));
            }
            0x85..=0x87 => {
                let items = self.several(usize::from(opcode - 0x84))?;
                self.stack.push(Value::Tuple(shallow(items)?));
            }
            b'q' => {
                let place = u32::from(self.byte()?);
                self.memorize(place);
            }
            b'r' => {
                let place = u32::from_le_bytes(self.array()?);
                self.memorize(place);
            }
            b'h' => {
                let place = u32::from(self.byte()?);
                self.recall(place)?;
            }
            b'j' => {
                let place = u32::from_le_bytes(self.array()?);
                self.recall(place)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Opcodes that make numpy arrays.
    fn objects(&mut self, opcode: u8) -> Result<bool, String> {
        match opcode {
            b'c' => {
                let name = format!("{} {}", self.line()?, self.line()?);
                let known = [RECONSTRUCT, ARRAY, KIND].into_iter().find(|known| **known == name);
                let known = known.ok_or_else(|| format!("it asks for {name:?}, which is not loaded"))?;
                self.stack.push(Value::Global(known));
            }
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let made = match (function, arguments) {
                    (Value::Global(RECONSTRUCT), Value::Tuple(items))
                        if items.first() == Some(&Value::Global(ARRAY)) =>
                    {
                        ARRAY
                    }
                    (Value::Global(KIND), Value::Tuple(items))
                        if items.first() == Some(&Value::Bytes(b"u1".to_vec())) =>
                    {
                        KIND
                    }
                    _ => return Err("it makes something other than an array of bytes".to_owned()),
                };
                self.stack.push(Value::Unbuilt(made));
            }
            b'b' => {
                let (state, object) = (self.pop()?, self.pop()?);
                let built = match object {
                    Value::Unbuilt(KIND) => Value::Global(KIND),
                    Value::Unbuilt(ARRAY) => matrix(state)?,
                    _ => return Err("it changes something other than an array".to_owned()),
                };
                self.stack.push(built);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let taken = self.bytes[self.position..].get(..count).ok_or("it ends too early")?;
        self.position += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], String> {
        let mut array = [0; COUNT];
        array.copy_from_slice(self.take(COUNT)?);
        Ok(array)
    }

    fn line(&mut self) -> Result<String, String> {
        let rest = &self.bytes[self.position..];
        let length = rest.iter().take(100).position(|byte| *byte == b'\n').ok_or("a name does not end")?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.position += length + 1;
        Ok(line)
    }

    fn pop(&mut self) -> Result<Value, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err("its stack is empty".to_owned());
        }
        self.stack.pop().ok_or_else(|| "its stack is empty".to_owned())
    }

    fn several(&mut self, count: usize) -> Result<Vec<Value>, String> {
        let mut items = (0..count).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
        items.reverse();
        Ok(items)
    }

    fn marked(&mut self) -> Result<Vec<Value>, String> {
        let mark = self.marks.pop().ok_or("a list has no beginning")?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn append(&mut self, items: Vec<Value>) -> Result<(), String> {
        match self.stack.last_mut() {
            Some(Value::List(list)) => list.extend(shallow(items)?),
            _ => return Err("it appends to something that is no list".to_owned()),
        }
        Ok(())
    }

    fn set_items(&mut self, items: Vec<Value>) -> Result<(), String> {
        let Some(Value::Dictionary(dictionary)) = self.stack.last_mut() else {
            return Err("it sets keys of something that is no dictionary".to_owned());
        };
        let mut items = shallow(items)?.into_iter();
        while let Some(key) = items.next() {
            let (Value::Bytes(key), Some(value)) = (key, items.next()) else {
                return Err("a key is no text, or has no value".to_owned());
            };
            dictionary.insert(String::from_utf8_lossy(&key).into_owned(), value);
        }
        Ok(())
    }

    /// Large values are never recalled by these files, so only small ones are kept.
    fn memorize(&mut self, place: u32) {
        let is_small = |value: &Value| match value {
            Value::Bytes(bytes) => bytes.len() <= MAX_RECALLED_BYTES,
            Value::Global(_) | Value::Integer(_) => true,
            _ => false,
        };
        if let Some(value) = self.stack.last().filter(|value| is_small(value)) {
            self.memo.insert(place, value.clone());
        }
    }

    fn recall(&mut self, place: u32) -> Result<(), String> {
        let value = self.memo.get(&place).ok_or("it recalls a value that the release never repeats")?;
        self.stack.push(value.clone());
        Ok(())
    }
}

/// Items that may go into one more collection.
fn shallow(items: Vec<Value>) -> Result<Vec<Value>, String> {
    match items.iter().all(|item| depth(item) < MAX_DEPTH) {
        true => Ok(items),
        false => Err(format!("it has more than {MAX_DEPTH} collections inside one another")),
    }
}

/// How many collections are inside one another; 0 for a value that is none.
fn depth(value: &Value) -> usize {
    let below = |items: &mut dyn Iterator<Item = &Value>| 1 + items.map(depth).max().unwrap_or(0);
    match value {
        Value::List(items) | Value::Tuple(items) => below(&mut items.iter()),
        Value::Dictionary(items) => below(&mut items.values()),
        _ => 0,
    }
}

/// An array's state: version, shape, kind, whether columns come first, bytes.
fn matrix(state: Value) -> Result<Value, String> {
    let refuse = || "its array is no matrix of bytes".to_owned();
    let Value::Tuple(state) = state else { return Err(refuse()) };
    let Ok([_, Value::Tuple(shape), Value::Global(KIND), Value::Truth(columns_first), Value::Bytes(bytes)]) =
        <[Value; 5]>::try_from(state)
    else {
        return Err(refuse());
    };
    let [Value::Integer(rows), Value::Integer(columns)] = shape[..] else { return Err(refuse()) };
    let (rows, columns) =
        (usize::try_from(rows).map_err(|_| refuse())?, usize::try_from(columns).map_err(|_| refuse())?);
    if rows.checked_mul(columns) != Some(bytes.len()) {
        return Err(format!("its matrix of {rows}x{columns} has {} bytes", bytes.len()));
    }
    let bytes = if columns_first {
        (0..rows * columns).map(|index| bytes[index % columns * rows + index / columns]).collect()
    } else {
        bytes
    };
    Ok(Value::Matrix { rows, columns, bytes })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Writes what Python 2 wrote: `{"data": matrix, key: labels}`.
    pub(in crate::data) fn batch(key: &str, labels: &[u8], columns: u16, pixels: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x80\x02}q\x01(".to_vec();
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.push(b'U');
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
        };
        text(&mut bytes, key);
        bytes.extend_from_slice(b"q\x02]q\x03(");
        labels.iter().for_each(|label| bytes.extend_from_slice(&[b'K', *label]));
        bytes.push(b'e');
        text(&mut bytes, "data");
        bytes.extend_from_slice(b"q\x04cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\0\x85q\x07U\x01bq\x08\x87q\x09Rq\x0a");
        bytes.extend_from_slice(b"(K\x01M");
        bytes.extend_from_slice(&(labels.len() as u16).to_le_bytes());
        bytes.push(b'M');
        bytes.extend_from_slice(&columns.to_le_bytes());
        bytes.extend_from_slice(b"\x86q\x0bcnumpy\ndtype\nq\x0cU\x02u1q\x0dK\0K\x01\x87q\x0eRq\x0f(K\x03U\x01|q\x10NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T");
        bytes.extend_from_slice(&(pixels.len() as u32).to_le_bytes());
        bytes.extend_from_slice(pixels);
        bytes.extend_from_slice(b"r\x11\0\0\0tbu.");
        bytes
    }

    #[test]
    fn a_batch_of_the_release_is_read() {
        let Value::Dictionary(read) = read(&batch("labels", &[7, 2], 3, &[1, 2, 3, 4, 5, 6])).unwrap() else {
            panic!("a batch is a dictionary")
        };
        assert_eq!(read["labels"], Value::List(vec![Value::Integer(7), Value::Integer(2)]));
        assert_eq!(read["data"], Value::Matrix { rows: 2, columns: 3, bytes: vec![1, 2, 3, 4, 5, 6] });
    }

    #[test]
    fn a_matrix_by_columns_is_turned() {
        let mut bytes = batch("labels", &[7, 2], 3, &[1, 4, 2, 5, 3, 6]);
        let place = bytes.iter().rposition(|byte| *byte == 0x89).unwrap();
        bytes[place] = 0x88;
        let Value::Dictionary(read) = read(&bytes).unwrap() else { panic!("a batch is a dictionary") };
        assert_eq!(read["data"], Value::Matrix { rows: 2, columns: 3, bytes: vec![1, 2, 3, 4, 5, 6] });
    }

    #[test]
    fn programs_and_damage_are_refused() {
        let harmful = b"\x80\x02cos\nsystem\nU\x02ls\x85R.";
        assert!(read(harmful).unwrap_err().contains("os system"));
        assert!(read(b"\x80\x04.").is_err());
        assert!(read(b"").is_err());
        assert!(read(b"\x80\x02(K\x01.").is_err());
        let good = batch("labels", &[7, 2], 3, &[1, 2, 3, 4, 5, 6]);
        for length in 0..good.len() {
            assert!(read(&good[..length]).is_err(), "cut at {length}");
        }
        let mut long = good.clone();
        long.push(0);
        assert!(read(&long).is_err());
    }

    #[test]
    fn nothing_is_nested_so_deep_that_dropping_it_ends_the_process() {
        let tuples = |count| [b"\x80\x02N".to_vec(), vec![0x85; count], b".".to_vec()].concat();
        assert!(read(&tuples(MAX_DEPTH)).is_ok());
        for count in [MAX_DEPTH + 1, 1_000_000] {
            let error = read(&tuples(count)).unwrap_err();
            assert!(error.contains("8 collections inside one another"), "{error}");
        }
        let lists = [b"\x80\x02".to_vec(), b"]".repeat(20), b"a".repeat(19), b".".to_vec()].concat();
        assert!(read(&lists).unwrap_err().contains("inside one another"));
    }

    #[test]
    fn a_short_file_does_not_grow_large() {
        let endless = |opcode: &[u8]| [b"\x80\x02](", &opcode.repeat(MAX_OPCODES)[..], b"e."].concat();
        for opcode in [b"N", b"("] {
            assert!(read(&endless(opcode)).unwrap_err().contains("opcodes"));
        }
        // Lists that are filled bit by bit leave the stack short.
        let filled = [b"\x80\x02]", &b"(Ne".repeat(MAX_OPCODES / 3)[..], b"."].concat();
        assert!(read(&filled).unwrap_err().contains("opcodes"));
        let recalled =
            |length: u8| [b"\x80\x02(U", &[length][..], &vec![0; length.into()], b"q\0h\0t."].concat();
        assert!(read(&recalled(100)).is_ok());
        assert!(read(&recalled(101)).unwrap_err().contains("recalls"));
    }

    #[test]
    fn a_changed_byte_never_panics() {
        let good = batch("labels", &[7, 2], 3, &[1, 2, 3, 4, 5, 6]);
        for place in 0..good.len() {
            for value in 0..=255 {
                let mut bytes = good.clone();
                bytes[place] = value;
                let _ = read(&bytes);
            }
        }
    }
}
