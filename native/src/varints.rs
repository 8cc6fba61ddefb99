//! Avro's arrays of numbers: blocks of varints, read for all records in one call.
//!
//! Source: Apache Avro 1.12 specification, "Binary Encoding", "Arrays".

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::column::Column;
use crate::rows::integers;

/// The count of an array that is left to Python.
const LEFT: i64 = -1;

/// The arrays of integers that begin at these positions of ``data``, one for each row, in records
/// that end at ``end``.
///
/// Returns the position after each array, how many items it has, and the items of all arrays, none
/// if they are ``skipped``. A count of -1 leaves the row to Python, at the position where it was:
/// its array is not one, or has a number that needs more than 64 bits, or 32 with ``is_int``.
#[pyfunction]
pub fn varint_blocks(
    py: Python<'_>,
    data: PyBuffer<u8>,
    at: PyBuffer<i64>,
    end: PyBuffer<i64>,
    is_int: bool,
    skipped: bool,
) -> PyResult<(Column, Column, Column)> {
    if !data.is_c_contiguous() {
        return Err(PyValueError::new_err("a buffer in pieces"));
    }
    // SAFETY: the buffer keeps the memory, which is in one piece; the caller waits, and changes
    // nothing meanwhile.
    let bytes =
        unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<u8>(), data.len_bytes()) };
    let (at, end) = (integers(&at)?, integers(&end)?);
    if at.len() != end.len() {
        return Err(PyValueError::new_err(format!(
            "{} positions and {} ends",
            at.len(),
            end.len()
        )));
    }
    Ok(py.detach(|| {
        let (mut after, mut counts) = (Vec::with_capacity(at.len()), Vec::with_capacity(at.len()));
        let mut values = Vec::new();
        for (&at, &end) in at.iter().zip(end) {
            let start = values.len();
            let found = record(bytes, at, end).and_then(|rest| {
                let mut reader = Reader {
                    rest,
                    is_int,
                    skipped,
                    values: &mut values,
                };
                let count = reader.blocks()?;
                Some((end - reader.rest.len() as i64, count))
            });
            let (position, count) = found.unwrap_or_else(|| {
                values.truncate(start);
                (at, LEFT)
            });
            after.push(position);
            counts.push(count);
        }
        (after.into(), counts.into(), values.into())
    }))
}

/// What a record has from a position on.
fn record(bytes: &[u8], at: i64, end: i64) -> Option<&[u8]> {
    bytes.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?)
}

/// What is left of a record; `None` of a method leaves the row to Python.
struct Reader<'a> {
    rest: &'a [u8],
    is_int: bool,
    skipped: bool,
    values: &'a mut Vec<i64>,
}

impl Reader<'_> {
    /// Reads the blocks of an array; returns how many items they have.
    fn blocks(&mut self) -> Option<i64> {
        let mut total = 0_i64;
        loop {
            let mut count = self.number()?;
            if count == 0 {
                return Some(total);
            }
            let mut after = None;
            if count < 0 {
                let size = usize::try_from(self.number()?).ok()?;
                after = Some(self.rest.len().checked_sub(size)?);
                count = count.checked_neg()?;
            }
            // Each item takes a byte at least, so this bounds what is allocated.
            if usize::try_from(count).ok()? > self.rest.len() {
                return None;
            }
            self.items(count)?;
            if after.is_some_and(|after| after != self.rest.len()) {
                return None;
            }
            total += count;
        }
    }

    fn items(&mut self, count: i64) -> Option<()> {
        for _ in 0..count {
            let number = self.number()?;
            if self.is_int && i32::try_from(number).is_err() {
                return None;
            }
            if !self.skipped {
                self.values.push(number);
            }
        }
        Some(())
    }

    /// Reads a zigzag varint.
    fn number(&mut self) -> Option<i64> {
        let (mut number, mut at) = (0_u64, 0_usize);
        loop {
            let byte = *self.rest.get(at)?;
            let part = u64::from(byte & 0x7F);
            // The tenth byte has one bit that counts.
            if at == 9 && byte > 1 {
                return None;
            }
            number |= part << (7 * at);
            at += 1;
            if byte < 0x80 {
                self.rest = &self.rest[at..];
                return Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reader;

    fn read(bytes: &[u8]) -> Option<(i64, Vec<i64>, usize)> {
        let mut values = Vec::new();
        let mut reader = Reader {
            rest: bytes,
            is_int: false,
            skipped: false,
            values: &mut values,
        };
        let count = reader.blocks()?;
        let left = reader.rest.len();
        Some((count, values, left))
    }

    #[test]
    fn blocks_are_read_to_their_end() {
        assert_eq!(read(&[0]), Some((0, vec![], 0)));
        assert_eq!(read(&[4, 2, 1, 2, 3, 0, 9]), Some((3, vec![1, -1, -2], 1)));
        // A block with its size in bytes.
        assert_eq!(read(&[3, 4, 2, 1, 0]), Some((2, vec![1, -1], 0)));
        assert_eq!(read(&[3, 6, 2, 1, 0]), None);
        assert_eq!(read(&[200, 1, 2, 1, 0]), None);
        assert_eq!(read(&[4, 2]), None);
    }

    #[test]
    fn numbers_fit_in_64_bits() {
        let least = [2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0];
        assert_eq!(read(&least), Some((1, vec![i64::MIN], 0)));
        let mut beyond = least;
        beyond[10] = 2;
        assert_eq!(read(&beyond), None);
    }
}
