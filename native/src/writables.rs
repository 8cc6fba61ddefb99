//! Hadoop's Writables: payloads and keys as `BytesWritable`, and their lengths.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::column::Column;
use crate::rows::{Rows, Selected, integers, of_all};

const NO_TIMESTAMP: i64 = -1;
/// MessagePack's type of a short map, to which its size is added.
const FIXMAP: u8 = 0x80;
/// The fields of a key, numbered as in Secor.
const OFFSET: u8 = 1;
const KEY: u8 = 2;
const TIMESTAMP: u8 = 3;

/// The length of each row as a ``BytesWritable``, as ``writeVInt`` writes it; and the rows: each
/// its own length in four bytes, big-endian, then its bytes. A row that is null is empty.
#[pyfunction]
pub fn bytes_writables(py: Python<'_>, columns: Vec<Selected>) -> PyResult<(Column, Column)> {
    let (rows, count, size) = of_all(&columns)?;
    Ok(py.detach(|| {
        let (mut lengths, mut out) = (
            Vec::with_capacity(count * 3),
            Vec::with_capacity(size + 4 * count),
        );
        for value in rows.iter().flat_map(Rows::values) {
            // A row of Arrow's is shorter than 2 GiB.
            let length = value.len() as u32;
            vint(&mut lengths, u64::from(length) + 4);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(value);
        }
        (lengths.into(), out.into())
    }))
}

/// Secor's MessagePack key of each row as a ``BytesWritable``: lengths and contents, as
/// ``bytes_writables`` returns them. A key is a map of 1: the offset; 3: the timestamp, unless it
/// is -1; and 2: the Kafka key, unless it is null or empty.
#[pyfunction]
pub fn messagepack_keys(
    py: Python<'_>,
    offsets: PyBuffer<i64>,
    timestamps: PyBuffer<i64>,
    keys: Selected,
) -> PyResult<(Column, Column)> {
    let (offsets, timestamps, keys) = (
        integers(&offsets)?,
        integers(&timestamps)?,
        Rows::of(&keys)?,
    );
    if offsets.len() != keys.len() || timestamps.len() != keys.len() {
        return Err(PyValueError::new_err(format!(
            "{} offsets, {} timestamps and {} keys",
            offsets.len(),
            timestamps.len(),
            keys.len()
        )));
    }
    Ok(py.detach(|| {
        let (mut lengths, mut out) = (Vec::new(), Vec::new());
        for ((offset, timestamp), key) in offsets.iter().zip(timestamps).zip(keys.values()) {
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            messagepack_key(&mut out, *offset, *timestamp, key);
            // A key of Kafka's is shorter than 2 GiB.
            let length = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            vint(&mut lengths, u64::from(length) + 4);
        }
        (lengths.into(), out.into())
    }))
}

fn messagepack_key(out: &mut Vec<u8>, offset: i64, timestamp: i64, key: &[u8]) {
    let (timed, keyed) = (timestamp != NO_TIMESTAMP, !key.is_empty());
    out.push(FIXMAP + 1 + u8::from(timed) + u8::from(keyed));
    out.push(OFFSET);
    messagepack_int(out, offset);
    if timed {
        out.push(TIMESTAMP);
        messagepack_int(out, timestamp);
    }
    if keyed {
        out.push(KEY);
        match key.len() {
            length @ ..0x100 => out.extend_from_slice(&[0xC4, length as u8]),
            length @ 0x100..0x1_0000 => {
                out.push(0xC5);
                out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                out.push(0xC6);
                out.extend_from_slice(&(length as u32).to_be_bytes());
            }
        }
        out.extend_from_slice(key);
    }
}

/// Appends the smallest MessagePack integer for a number.
fn messagepack_int(out: &mut Vec<u8>, number: i64) {
    let (lead, width) = match number {
        ..-0x8000_0000 => (0xD3, 8),
        -0x8000_0000..-0x8000 => (0xD2, 4),
        -0x8000..-0x80 => (0xD1, 2),
        -0x80..-0x20 => (0xD0, 1),
        -0x20..0x80 => return out.push(number as u8),
        0x80..0x100 => (0xCC, 1),
        0x100..0x1_0000 => (0xCD, 2),
        0x1_0000..0x1_0000_0000 => (0xCE, 4),
        _ => (0xCF, 8),
    };
    out.push(lead);
    out.extend_from_slice(&number.to_be_bytes()[8 - width..]);
}

/// Appends a number that is not negative as ``writeVInt`` writes it.
fn vint(out: &mut Vec<u8>, number: u64) {
    if number < 128 {
        out.push(number as u8);
        return;
    }
    let width = number.ilog2() as usize / 8 + 1;
    out.push((256 - 112 - width) as u8);
    out.extend_from_slice(&number.to_be_bytes()[8 - width..]);
}

#[cfg(test)]
mod tests {
    use super::vint;

    #[test]
    fn numbers_are_as_hadoop_writes_them() {
        let written = |number| {
            let mut out = Vec::new();
            vint(&mut out, number);
            out
        };
        assert_eq!(written(0), [0]);
        assert_eq!(written(127), [127]);
        assert_eq!(written(128), [0x8f, 128]);
        assert_eq!(written(255), [0x8f, 255]);
        assert_eq!(written(256), [0x8e, 1, 0]);
        assert_eq!(written(1 << 16), [0x8d, 1, 0, 0]);
        assert_eq!(written(0x8000_0003), [0x8c, 0x80, 0, 0, 3]);
    }
}
