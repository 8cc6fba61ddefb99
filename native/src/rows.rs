//! Rows of Arrow's binary columns, read where they are.

use std::ops::Range;
use std::slice;

use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

/// A binary column and rows of it: validity bits, or none if every row is valid; 32-bit bounds;
/// bytes, or none if all rows are empty; the first row of the column in these; how many rows it
/// has; which of them, in order, or none for all.
pub type Selected = (
    Option<Buffer>,
    Buffer,
    Option<Buffer>,
    usize,
    usize,
    Option<PyBuffer<i64>>,
);

/// Memory of any format that Python lends.
pub struct Buffer(PyUntypedBuffer);

impl FromPyObject<'_, '_> for Buffer {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        PyUntypedBuffer::get(&object).map(Self)
    }
}

/// Rows of a column, checked: each is inside the bytes.
pub struct Rows<'a> {
    valid: Option<&'a [u8]>,
    bounds: &'a [i32],
    bytes: &'a [u8],
    first: usize,
    chosen: Option<&'a [i64]>,
}

/// Integers that Python lends.
///
/// # Errors
/// ValueError if they do not lie one after the other.
pub fn integers(buffer: &PyBuffer<i64>) -> PyResult<&[i64]> {
    // SAFETY: the caller waits, and changes nothing meanwhile.
    unsafe { contents(buffer) }
}

/// The memory of a buffer as values of a type.
///
/// # Safety
/// Nobody changes the memory while the result exists, and `T` has no invalid values.
unsafe fn contents<T>(buffer: &PyUntypedBuffer) -> PyResult<&[T]> {
    let (start, size) = (buffer.buf_ptr().cast::<T>(), buffer.len_bytes());
    if !buffer.is_c_contiguous() || !start.is_aligned() {
        return Err(PyValueError::new_err("a buffer that is no column of Arrow"));
    }
    if size == 0 {
        return Ok(&[]);
    }
    // SAFETY: Python says where the memory begins and how long it is, and `buffer` keeps it alive.
    Ok(unsafe { slice::from_raw_parts(start, size / size_of::<T>()) })
}

fn outside(what: &str) -> PyErr {
    PyValueError::new_err(format!("rows outside of {what}"))
}

impl<'a> Rows<'a> {
    /// The rows of a column that Python passes.
    ///
    /// # Errors
    /// ValueError if a row is outside of what was passed.
    pub fn of(selected: &'a Selected) -> PyResult<Self> {
        let (valid, bounds, bytes, first, count, chosen) = selected;
        // SAFETY: Arrow's buffers never change.
        let (valid, bounds, bytes) = unsafe {
            (
                valid.as_ref().map(|b| contents::<u8>(&b.0)).transpose()?,
                contents::<i32>(&bounds.0)?,
                bytes
                    .as_ref()
                    .map_or(Ok(&[][..]), |b| contents::<u8>(&b.0))?,
            )
        };
        let chosen = chosen.as_ref().map(integers).transpose()?;
        let end = first
            .checked_add(*count)
            .filter(|end| *end < bounds.len())
            .ok_or_else(|| outside("the bounds"))?;
        if valid.is_some_and(|bits| bits.len() * 8 < end) {
            return Err(outside("the validity bits"));
        }
        let bounds = &bounds[*first..=end];
        if bounds[0] < 0
            || bounds.windows(2).any(|pair| pair[0] > pair[1])
            || bounds[*count] as usize > bytes.len()
        {
            return Err(outside("the bytes"));
        }
        if chosen.is_some_and(|rows| {
            rows.iter()
                .any(|row| usize::try_from(*row).map_or(true, |row| row >= *count))
        }) {
            return Err(outside("the column"));
        }
        Ok(Self {
            valid,
            bounds,
            bytes,
            first: *first,
            chosen,
        })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.chosen.map_or(self.bounds.len() - 1, <[i64]>::len)
    }

    /// Where each row begins and ends; a row that is null is empty.
    fn each(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.len()).map(|at| {
            let row = self.chosen.map_or(at, |rows| rows[at] as usize);
            let bit = self.first + row;
            if self
                .valid
                .is_some_and(|bits| bits[bit / 8] >> (bit % 8) & 1 == 0)
            {
                return 0..0;
            }
            self.bounds[row] as usize..self.bounds[row + 1] as usize
        })
    }

    /// The contents of each row; empty if it is null.
    pub fn values(&self) -> impl Iterator<Item = &'a [u8]> {
        let bytes = self.bytes;
        self.each().map(move |range| &bytes[range])
    }

    /// The length of each row in bytes, which is less than 2 GiB.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.each().map(|range| range.len())
    }
}

/// The rows of several columns, and how many bytes they have in all.
pub fn of_all(selected: &[Selected]) -> PyResult<(Vec<Rows<'_>>, usize, usize)> {
    let rows = selected
        .iter()
        .map(Rows::of)
        .collect::<PyResult<Vec<_>>>()?;
    let count = rows.iter().map(Rows::len).sum();
    let mut size = 0_usize;
    for length in rows.iter().flat_map(Rows::lengths) {
        size = size
            .checked_add(length)
            .ok_or_else(|| PyOverflowError::new_err("more bytes than memory can hold"))?;
    }
    Ok((rows, count, size))
}
