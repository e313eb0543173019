//! Files of numpy (`numpy.save`): a header in the syntax of Python, then the numbers as they lie in memory.

use anyhow::{Context, bail, ensure};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Whether bytes begin as such a file does.
pub(super) fn is_numpy(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The rows of a matrix of 32-bit or 64-bit floats.
pub(super) fn rows(bytes: &[u8]) -> anyhow::Result<Vec<Vec<f64>>> {
    let (header, data) = split(bytes).context("the header of the numpy file is cut")?;
    let header = std::str::from_utf8(header).context("the header of the numpy file is no text")?;
    ensure!(
        header.contains("'fortran_order': False"),
        "expected rows one after the other; save a copy in C order"
    );
    let shape = header.split_once("'shape': (").and_then(|(_, rest)| rest.split_once(')'));
    let (shape, _) = shape.context("the numpy file states no shape")?;
    let dims: Vec<&str> = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty()).collect();
    let [rows, columns] = dims.as_slice() else {
        bail!("the numpy file holds {dims:?}; expected images and logits")
    };
    let (rows, columns): (usize, usize) = (rows.parse()?, columns.parse()?);
    let numbers: Vec<f64> = if header.contains("'<f4'") {
        data.as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect()
    } else if header.contains("'<f8'") {
        data.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
    } else {
        bail!("the numpy file holds other numbers than float32 or float64");
    };
    ensure!(
        rows.checked_mul(columns) == Some(numbers.len()),
        "the numpy file is shorter or longer than its shape"
    );
    ensure!(columns > 0, "the numpy file holds no logits");
    Ok(numbers.chunks_exact(columns).map(<[f64]>::to_vec).collect())
}

/// Header and numbers; the length of the header has two bytes in version 1, four later.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.get(MAGIC.len()..)?;
    let ([version, _], rest) = rest.split_first_chunk()?;
    let (length, rest) = match version {
        1 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        _ => {
            let (length, rest) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}\n");
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), data].concat()
    }

    #[test]
    fn matrices_of_floats_are_read() {
        let data: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(rows(&file("<f4", "2, 2", &data)).unwrap(), [[1.0, 2.0], [3.0, 4.0]]);
        let data: Vec<u8> = [1.5_f64, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(rows(&file("<f8", "1, 2", &data)).unwrap(), [[1.5, 2.0]]);
    }

    #[test]
    fn other_files_are_refused() {
        let data = [0; 16];
        for (file, words) in [
            (file("<f4", "3, 2", &data), "shorter or longer"),
            (file("<f4", "4,", &data), "expected images and logits"),
            (file("<i8", "1, 2", &data), "other numbers"),
            (file("<f4", "4, 0", &[]), "no logits"),
            (file("<f4", "99999999999999, 99999999999999", &data), "shorter or longer"),
            (b"\x93NUMPY\x01\x00\xff\xff{".to_vec(), "cut"),
            (
                file("<f4", "2, 2", &data)
                    .iter()
                    .copied()
                    .map(|byte| if byte == b'F' { b'T' } else { byte })
                    .collect(),
                "C order",
            ),
        ] {
            let error = format!("{:#}", rows(&file).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }
}
