//! Landfall's hot path: reads Kafka messages by librdkafka's batches straight into Arrow's buffers,
//! takes the wanted values of JSON, Avro and Thrift out of them, and writes their rows as the contents of files.
//!
//! Pure Python does the same (`landfall.source.clients`, `landfall.formats`); this crate
//! holds no decision of its own, so both give the same records, errors and bytes. librdkafka is not
//! linked: the library that confluent-kafka's module is linked to is opened when a process first
//! asks for it.
//!
//! No call, and no end of an object, holds the GIL while it waits or copies; only headers and wanted
//! values are made into objects of Python's with it. A panic is a Python exception.

use pyo3::prelude::*;

mod column;
mod consumer;
mod detached;
mod json;
mod librdkafka;
mod lines;
mod messages;
mod number;
mod positions;
mod rows;
mod scan;
mod thrift;
mod varints;
mod wanted;
mod writables;

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
    use crate::librdkafka::Librdkafka;
    #[pymodule_export]
    use crate::lines::lines;
    #[pymodule_export]
    use crate::messages::Messages;
    #[pymodule_export]
    use crate::thrift::thrift_binary;
    #[pymodule_export]
    use crate::varints::varint_blocks;
    #[pymodule_export]
    use crate::writables::{bytes_writables, messagepack_keys};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
