//! Values whose end takes time, dropped without the GIL.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use pyo3::prelude::*;

/// A value in an object of Python's. Other Python threads run while it is dropped.
pub struct Detached<T: Send>(ManuallyDrop<T>);

impl<T: Send> From<T> for Detached<T> {
    fn from(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T: Send> Deref for Detached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        // SAFETY: nothing uses the value after this.
        let mut value = Some(unsafe { ManuallyDrop::take(&mut self.0) });
        Python::try_attach(|py| py.detach(|| drop(value.take())));
        // Python ends, or is not there: there is no GIL to give away.
        drop(value);
    }
}
