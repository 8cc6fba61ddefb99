//! JSON objects in Arrow's buffers: checked, and the wanted values taken, in one pass.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString};

use crate::column::Column;
use crate::wanted::{BOOL, Cell, FLOAT, INT32, INT64, Search, TEXT, Wanted};

/// The values at one path, one for each payload; of those left to Python they mean nothing.
#[derive(IntoPyObject)]
pub enum Values {
    /// Only integers, int64.
    Ints(Column),
    /// Python's values, None for null and absent.
    Mixed(Py<PyList>),
}

/// Finds the same values in every payload.
#[pyclass(frozen)]
pub struct JsonFields(Wanted);

#[pymethods]
impl JsonFields {
    #[classattr]
    const INT64: u8 = INT64;
    #[classattr]
    const INT32: u8 = INT32;
    #[classattr]
    const FLOAT: u8 = FLOAT;
    #[classattr]
    const BOOL: u8 = BOOL;
    #[classattr]
    const TEXT: u8 = TEXT;

    /// Takes paths, each with the kinds of values that are allowed at it beside null.
    #[new]
    fn new(paths: Vec<(Vec<String>, u8)>) -> PyResult<Self> {
        Wanted::new(&paths)
            .map(Self)
            .ok_or_else(|| PyValueError::new_err("a path is empty, too long, or contains another"))
    }

    /// Searches ``rows`` payloads of an Arrow binary array, from the one at ``first``.
    ///
    /// Takes the buffers of the array: validity bits, if a payload is null; int32 offsets; bytes.
    /// Returns the values at each path, and the rows that are left to Python, int64.
    fn extract(
        &self,
        py: Python<'_>,
        valid: Option<&Bound<'_, PyAny>>,
        bounds: &Bound<'_, PyAny>,
        contents: &Bound<'_, PyAny>,
        first: usize,
        rows: usize,
    ) -> PyResult<(Vec<Values>, Column)> {
        let valid = valid.map(PyUntypedBuffer::get).transpose()?;
        let (bounds, contents) = (
            PyUntypedBuffer::get(bounds)?,
            PyUntypedBuffer::get(contents)?,
        );
        let payloads = Payloads {
            valid: valid.as_ref().map(bytes).transpose()?,
            bounds: bytes(&bounds)?,
            contents: bytes(&contents)?,
            first,
            rows,
        };
        let (cells, left) = py.detach(|| payloads.search(&self.0))?;
        let values = (0..self.0.columns()).map(|column| {
            let cells = &cells[column * rows..][..rows];
            match cells.iter().map(integer).collect::<Option<Vec<_>>>() {
                Some(integers) => Ok(Values::Ints(integers.into())),
                None => mixed(py, cells, payloads.contents).map(Values::Mixed),
            }
        });
        Ok((values.collect::<PyResult<_>>()?, left.into()))
    }
}

/// What a buffer holds.
fn bytes(buffer: &PyUntypedBuffer) -> PyResult<&[u8]> {
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("a buffer in pieces"));
    }
    if buffer.len_bytes() == 0 {
        return Ok(&[]);
    }
    // SAFETY: the buffer keeps the memory, which is in one piece; nobody changes what an Arrow array
    // is made of.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) })
}

/// The buffers of an Arrow binary array.
struct Payloads<'a> {
    valid: Option<&'a [u8]>,
    bounds: &'a [u8],
    contents: &'a [u8],
    first: usize,
    rows: usize,
}

impl Payloads<'_> {
    /// Where a payload begins in ``contents``, and its bytes; none if it is null.
    fn payload(&self, row: usize) -> Option<Option<(u32, &[u8])>> {
        let row = self.first.checked_add(row)?;
        if let Some(valid) = self.valid
            && valid.get(row / 8)? >> (row % 8) & 1 == 0
        {
            return Some(None);
        }
        let at = row.checked_mul(4)?;
        let (start, rest) = self.bounds.get(at..)?.split_first_chunk()?;
        let (start, end) = (
            u32::from_le_bytes(*start),
            u32::from_le_bytes(*rest.first_chunk()?),
        );
        let found = self
            .contents
            .get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
        Some(Some((start, found)))
    }

    /// The cells of each column, one for each payload, and the rows that are left to Python.
    fn search(&self, wanted: &Wanted) -> PyResult<(Vec<Cell>, Vec<i64>)> {
        let (rows, columns) = (self.rows, wanted.columns());
        let (mut cells, mut left) = (vec![Cell::Absent; rows * columns], Vec::new());
        let mut search = Search::new(wanted);
        // Some rows at a time, so that they are in the cache when they are turned into columns.
        let step = (TURNED_CELLS / columns.max(1)).clamp(1, rows.max(1));
        let mut turned = vec![Cell::Absent; step * columns];
        for begin in (0..rows).step_by(step) {
            let end = rows.min(begin + step);
            turned.fill(Cell::Absent);
            for row in begin..end {
                let Some(found) = self.payload(row) else {
                    return Err(PyValueError::new_err(format!(
                        "row {row} is beyond the buffers"
                    )));
                };
                let Some((start, payload)) = found else {
                    continue;
                };
                let cells = &mut turned[(row - begin) * columns..][..columns];
                if search.payload(payload, start, cells).is_err() {
                    cells.fill(Cell::Left);
                    left.push(i64::try_from(row)?);
                }
            }
            for column in 0..columns {
                let cells = &mut cells[column * rows..][begin..end];
                for (cell, found) in cells
                    .iter_mut()
                    .zip(turned[column..].iter().step_by(columns))
                {
                    *cell = *found;
                }
            }
        }
        Ok((cells, left))
    }
}

/// How many cells are turned from rows into columns at a time: 256 KiB of them.
const TURNED_CELLS: usize = 16 * 1024;

fn integer(cell: &Cell) -> Option<i64> {
    match *cell {
        Cell::Int(value) => Some(value),
        Cell::Left => Some(0),
        _ => None,
    }
}

fn mixed(py: Python<'_>, cells: &[Cell], contents: &[u8]) -> PyResult<Py<PyList>> {
    let values = cells.iter().map(|cell| match *cell {
        Cell::Absent | Cell::Left | Cell::Null => Ok(py.None()),
        Cell::Bool(value) => Ok(PyBool::new(py, value).to_owned().into_any().unbind()),
        Cell::Int(value) => Ok(PyInt::new(py, value).into_any().unbind()),
        Cell::Float(value) => Ok(PyFloat::new(py, value).into_any().unbind()),
        Cell::Text(start, end) => {
            let text = &contents[usize::try_from(start)?..usize::try_from(end)?];
            Ok(PyString::from_bytes(py, text)?.into_any().unbind())
        }
    });
    let values = values.collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, values)?.unbind())
}
