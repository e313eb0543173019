//! Arrays as safetensors files of a limited size.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::{Arrays, CheckpointError};
use crate::array::{Array, ArrayKind};

/// The least size of a shard.
#[cfg(not(test))]
const MIN_SHARD_BYTES: u64 = 1 << 20;
#[cfg(test)]
const MIN_SHARD_BYTES: u64 = 64;
/// What the header of a safetensors file takes per tensor, at most, names aside.
const HEADER_BYTES_PER_TENSOR: u64 = 160;

/// The files for some arrays: `NAME.safetensors`, or `NAME-1-of-3.safetensors` and so on. Arrays that no shard holds are
/// cut into pieces, whose shapes are noted.
pub(super) fn pack(
    name: &str,
    arrays: &Arrays,
    shard_bytes: u64,
    pieces: &mut BTreeMap<String, Vec<usize>>,
) -> Result<Vec<(String, Vec<u8>)>, CheckpointError> {
    if shard_bytes < MIN_SHARD_BYTES {
        return Err(CheckpointError::Shard { bytes: shard_bytes });
    }
    let mut shards = vec![Arrays::new()];
    let mut used = 0;
    for (key, array) in cut_large(arrays, shard_bytes, pieces) {
        let size = array.bytes.len() as u64 + key.len() as u64 + HEADER_BYTES_PER_TENSOR;
        if used + size > shard_bytes && used > 0 {
            shards.push(Arrays::new());
            used = 0;
        }
        used += size;
        shards.last_mut().expect("there is always a shard").insert(key, array);
    }
    let count = shards.len();
    let file = |(index, shard): (usize, &Arrays)| {
        let name = match count {
            1 => format!("{name}.safetensors"),
            _ => format!("{name}-{}-of-{count}.safetensors", index + 1),
        };
        Ok((name, to_safetensors(shard)?))
    };
    shards.iter().enumerate().map(file).collect()
}

/// Cuts arrays that no shard holds into pieces of numbers in a row.
fn cut_large(arrays: &Arrays, shard_bytes: u64, pieces: &mut BTreeMap<String, Vec<usize>>) -> Arrays {
    let mut cut = Arrays::new();
    for (key, array) in arrays {
        let room = shard_bytes.saturating_sub(HEADER_BYTES_PER_TENSOR + key.len() as u64 + 8).max(8);
        if array.bytes.len() as u64 <= room {
            cut.insert(key.clone(), array.clone());
            continue;
        }
        pieces.insert(key.clone(), array.shape.clone());
        // Eight bytes are a whole number of numbers of any kind.
        let chunk = (room / 8 * 8) as usize;
        for (index, bytes) in array.bytes.chunks(chunk).enumerate() {
            let shape = vec![bytes.len() / array.kind.width()];
            cut.insert(format!("{key}#{index:05}"), Array { shape, kind: array.kind, bytes: bytes.to_vec() });
        }
    }
    cut
}

/// Puts the pieces of large arrays together again.
pub(super) fn join(
    folder: &Path,
    arrays: &mut Arrays,
    pieces: &BTreeMap<String, Vec<usize>>,
) -> Result<(), CheckpointError> {
    for (key, shape) in pieces {
        let mut joined: Option<Array> = None;
        for index in 0.. {
            let Some(piece) = arrays.remove(&format!("{key}#{index:05}")) else { break };
            match &mut joined {
                None => joined = Some(piece),
                Some(whole) if whole.kind == piece.kind => whole.bytes.extend_from_slice(&piece.bytes),
                Some(_) => {
                    let reason = format!("the pieces of {key} are of different kinds");
                    return Err(CheckpointError::Damaged { path: folder.into(), reason });
                }
            }
        }
        let Some(whole) = joined else { continue };
        let reason = format!("the pieces of {key} do not make {shape:?}");
        let whole = Array::new(shape.clone(), whole.kind, whole.bytes);
        arrays.insert(key.clone(), whole.ok_or(CheckpointError::Damaged { path: folder.into(), reason })?);
    }
    Ok(())
}

/// Arrays as the bytes of one safetensors file.
pub(super) fn to_safetensors(arrays: &Arrays) -> Result<Vec<u8>, CheckpointError> {
    let refused = |error: safetensors::SafeTensorError| CheckpointError::Tensors(error.to_string());
    let view = |array: &'_ Array| {
        let kind = match array.kind {
            ArrayKind::F32 => Dtype::F32,
            ArrayKind::I64 => Dtype::I64,
            ArrayKind::U8 => Dtype::U8,
        };
        (kind, array.shape.clone())
    };
    let mut views = Vec::with_capacity(arrays.len());
    for (name, array) in arrays {
        let (kind, shape) = view(array);
        views.push((name, TensorView::new(kind, shape, &array.bytes).map_err(refused)?));
    }
    safetensors::serialize(views, None).map_err(refused)
}

/// Reads the arrays of one file.
pub(super) fn unpack(path: &Path, bytes: &[u8], arrays: &mut Arrays) -> Result<(), CheckpointError> {
    let damaged = |reason: String| CheckpointError::Damaged { path: path.into(), reason };
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| damaged(error.to_string()))?;
    for (name, view) in tensors.iter() {
        let kind = match view.dtype() {
            Dtype::F32 => ArrayKind::F32,
            Dtype::I64 => ArrayKind::I64,
            Dtype::U8 => ArrayKind::U8,
            other => return Err(damaged(format!("{name} holds numbers of kind {other:?}"))),
        };
        let array = Array::new(view.shape().to_vec(), kind, view.data().to_vec());
        arrays
            .insert(name.to_owned(), array.ok_or_else(|| damaged(format!("{name} does not fit its shape")))?);
    }
    Ok(())
}
