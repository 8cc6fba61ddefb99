//! Memory that Arrow and NumPy read without copying it.

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;

/// Bytes or integers that never change, behind Python's buffer protocol.
#[pyclass(frozen)]
pub struct Column(Contents);

enum Contents {
    Bytes(Vec<u8>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
}

impl Contents {
    /// Where the bytes begin, and how many there are.
    fn raw(&self) -> (*const u8, usize) {
        match self {
            Self::Bytes(values) => (values.as_ptr(), values.len()),
            Self::Int32(values) => (values.as_ptr().cast(), size_of_val(values.as_slice())),
            Self::Int64(values) => (values.as_ptr().cast(), size_of_val(values.as_slice())),
        }
    }
}

impl From<Vec<u8>> for Column {
    fn from(values: Vec<u8>) -> Self {
        Self(Contents::Bytes(values))
    }
}

impl From<Vec<i32>> for Column {
    fn from(values: Vec<i32>) -> Self {
        Self(Contents::Int32(values))
    }
}

impl From<Vec<i64>> for Column {
    fn from(values: Vec<i64>) -> Self {
        Self(Contents::Int64(values))
    }
}

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.0.raw().1
    }

    /// # Safety
    /// Python calls it with a view to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, size) = slf.get().0.raw();
        let size = ffi::Py_ssize_t::try_from(size)?;
        // SAFETY: the view keeps the object alive, whose memory neither moves nor changes: the class
        // is frozen, and the view is read-only.
        let result = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast_mut().cast(), size, 1, flags)
        };
        if result == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}
