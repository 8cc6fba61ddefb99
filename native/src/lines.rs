//! Payloads as lines, gathered and joined by one copy.

use pyo3::prelude::*;

use crate::column::Column;
use crate::rows::{Rows, Selected, of_all};

/// Each row followed by a delimiter; ``unbroken`` writes a space for each line break of a row.
/// A row that is null is empty.
#[pyfunction]
pub fn lines(
    py: Python<'_>,
    columns: Vec<Selected>,
    delimiter: &[u8],
    unbroken: bool,
) -> PyResult<Column> {
    let (rows, count, size) = of_all(&columns)?;
    Ok(py.detach(|| joined(&rows, count, size, delimiter, unbroken).into()))
}

fn joined(
    rows: &[Rows<'_>],
    count: usize,
    size: usize,
    delimiter: &[u8],
    unbroken: bool,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + count * delimiter.len());
    for value in rows.iter().flat_map(Rows::values) {
        let start = out.len();
        out.extend_from_slice(value);
        if unbroken {
            spaces_for_breaks(&mut out[start..]);
        }
        out.extend_from_slice(delimiter);
    }
    out
}

fn spaces_for_breaks(line: &mut [u8]) {
    for byte in line {
        *byte = if matches!(*byte, b'\n' | b'\r') {
            b' '
        } else {
            *byte
        };
    }
}
