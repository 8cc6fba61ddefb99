//! Landfall's hot path: reads Kafka messages by librdkafka's batches straight into Arrow's buffers,
//! and takes the wanted values of JSON out of them.
//!
//! Pure Python does the same with one object per message (`landfall.source.clients`); this crate
//! holds no decision of its own, so both give the same records, errors and bytes. librdkafka is not
//! linked: the library that confluent-kafka ships is opened when a process first asks for it.
//!
//! No call holds the GIL while it waits or copies, and a panic is a Python exception.

use pyo3::prelude::*;

mod column;
mod consumer;
mod json;
mod librdkafka;
mod messages;
mod number;
mod positions;
mod scan;
mod wanted;

/// The module `landfall_native`.
#[pymodule]
mod landfall_native {
    #[pymodule_export]
    use crate::column::Column;
    #[pymodule_export]
    use crate::consumer::{ClientError, Consumer};
    #[pymodule_export]
    use crate::json::JsonFields;
    #[pymodule_export]
    use crate::messages::Messages;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
