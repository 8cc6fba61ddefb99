//! The functions of librdkafka's C interface that are called here, found at run time.
//!
//! The names, types and rules are those of `rdkafka.h`, whose ABI has been stable since 1.0.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_void};
use std::sync::Arc;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// A client, `rd_kafka_t`.
#[repr(C)]
pub struct Client {
    _opaque: [u8; 0],
}
/// `rd_kafka_conf_t`.
#[repr(C)]
pub struct Conf {
    _opaque: [u8; 0],
}
/// `rd_kafka_topic_t`.
#[repr(C)]
pub struct Topic {
    _opaque: [u8; 0],
}
/// `rd_kafka_queue_t`.
#[repr(C)]
pub struct Queue {
    _opaque: [u8; 0],
}
/// `rd_kafka_headers_t`.
#[repr(C)]
pub struct Headers {
    _opaque: [u8; 0],
}
/// `rd_kafka_error_t`.
#[repr(C)]
pub struct Error {
    _opaque: [u8; 0],
}

/// `rd_kafka_message_t`.
#[repr(C)]
pub struct Message {
    /// Not zero if this is no message but an error.
    pub err: c_int,
    /// Null if the error is of the whole client.
    pub rkt: *mut Topic,
    /// The Kafka partition; -1 if the error is of none.
    pub partition: i32,
    /// Null if the record is a tombstone.
    pub payload: *const u8,
    /// Bytes of the payload.
    pub len: usize,
    /// Null if the record has none.
    pub key: *const u8,
    /// Bytes of the key.
    pub key_len: usize,
    /// Of the message, or of what the error is about.
    pub offset: i64,
    _private: *mut c_void,
}

/// `rd_kafka_topic_partition_t`.
#[repr(C)]
pub struct TopicPartition {
    _topic: *mut c_char,
    _partition: i32,
    /// Where to begin.
    pub offset: i64,
    _metadata: *mut c_void,
    _metadata_size: usize,
    _opaque: *mut c_void,
    /// Not zero if the operation failed for it.
    pub err: c_int,
    _private: *mut c_void,
}

/// `rd_kafka_topic_partition_list_t`.
#[repr(C)]
pub struct TopicPartitions {
    /// How many `elems` are.
    pub count: c_int,
    _size: c_int,
    /// The topic partitions.
    pub elems: *mut TopicPartition,
}

/// `rd_kafka_metadata_partition_t`.
#[repr(C)]
pub struct MetadataPartition {
    /// The Kafka partition.
    pub id: i32,
    _err: c_int,
    _leader: i32,
    _replica_count: c_int,
    _replicas: *mut i32,
    _isr_count: c_int,
    _isrs: *mut i32,
}

/// `rd_kafka_metadata_topic_t`.
#[repr(C)]
pub struct MetadataTopic {
    /// Its name.
    pub topic: *const c_char,
    /// How many `partitions` are.
    pub partition_count: c_int,
    /// Its Kafka partitions.
    pub partitions: *const MetadataPartition,
    /// Not zero if the broker says nothing of it but this.
    pub err: c_int,
}

/// `rd_kafka_metadata_t`.
#[repr(C)]
pub struct Metadata {
    _broker_count: c_int,
    _brokers: *mut c_void,
    /// How many `topics` are.
    pub topic_count: c_int,
    /// The topics.
    pub topics: *const MetadataTopic,
    _broker_id: i32,
    _broker_name: *mut c_char,
}

/// What librdkafka calls with an error of the whole client.
pub type ErrorCallback = unsafe extern "C" fn(*mut Client, c_int, *const c_char, *mut c_void);

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, without their prefix `rd_kafka_`.
        #[allow(missing_docs, reason = "rdkafka.h describes them")]
        pub struct Library {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps the functions loaded; none for those of a test.
            pub loaded: Option<libloading::Library>,
        }

        impl Library {
            /// Finds all functions in a library file, or in the libraries that it is linked to.
            pub fn open(path: &OsStr) -> Result<Self, libloading::Error> {
                // SAFETY: the caller names librdkafka or confluent-kafka's module, neither of which
                // has initializers that could do harm.
                let library = unsafe { libloading::Library::new(path)? };
                Ok(Self {
                    // SAFETY: the types are those of rdkafka.h.
                    $($name: unsafe {
                        *library.get(concat!("rd_kafka_", stringify!($name), "\0").as_bytes())?
                    },)*
                    loaded: Some(library),
                })
            }

            /// Functions that stop the process, for tests to replace those that they need.
            #[cfg(test)]
            pub fn absent() -> Self {
                Self {
                    $($name: {
                        unsafe extern "C" fn absent($(_: $argument),*) $(-> $result)? {
                            panic!(concat!("rd_kafka_", stringify!($name), " is absent"))
                        }
                        absent
                    },)*
                    loaded: None,
                }
            }
        }
    };
}

functions! {
    version_str: fn() -> *const c_char;
    conf_new: fn() -> *mut Conf;
    conf_destroy: fn(*mut Conf);
    conf_set: fn(*mut Conf, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
    conf_set_opaque: fn(*mut Conf, *mut c_void);
    conf_set_error_cb: fn(*mut Conf, ErrorCallback);
    new: fn(c_int, *mut Conf, *mut c_char, usize) -> *mut Client;
    poll_set_consumer: fn(*mut Client) -> c_int;
    consumer_close: fn(*mut Client) -> c_int;
    destroy: fn(*mut Client);
    queue_get_consumer: fn(*mut Client) -> *mut Queue;
    queue_destroy: fn(*mut Queue);
    consume_batch_queue: fn(*mut Queue, c_int, *mut *mut Message, usize) -> isize;
    consumer_poll: fn(*mut Client, c_int) -> *mut Message;
    message_destroy: fn(*mut Message);
    message_errstr: fn(*const Message) -> *const c_char;
    message_timestamp: fn(*const Message, *mut c_int) -> i64;
    message_leader_epoch: fn(*const Message) -> i32;
    message_headers: fn(*const Message, *mut *mut Headers) -> c_int;
    header_get_all: fn(
        *const Headers, usize, *mut *const c_char, *mut *const c_void, *mut usize
    ) -> c_int;
    topic_name: fn(*const Topic) -> *const c_char;
    topic_new: fn(*mut Client, *const c_char, *mut c_void) -> *mut Topic;
    topic_destroy: fn(*mut Topic);
    topic_partition_list_new: fn(c_int) -> *mut TopicPartitions;
    topic_partition_list_add: fn(
        *mut TopicPartitions, *const c_char, i32
    ) -> *mut TopicPartition;
    topic_partition_set_leader_epoch: fn(*mut TopicPartition, i32);
    topic_partition_list_destroy: fn(*mut TopicPartitions);
    assign: fn(*mut Client, *const TopicPartitions) -> c_int;
    seek_partitions: fn(*mut Client, *mut TopicPartitions, c_int) -> *mut Error;
    error_code: fn(*const Error) -> c_int;
    error_destroy: fn(*mut Error);
    metadata: fn(*mut Client, c_int, *mut Topic, *mut *const Metadata, c_int) -> c_int;
    metadata_destroy: fn(*const Metadata);
    last_error: fn() -> c_int;
    err2str: fn(c_int) -> *const c_char;
}

/// librdkafka as it is loaded by confluent-kafka; opened once for a process.
#[pyclass(frozen)]
pub struct Librdkafka(Arc<Library>);

impl Librdkafka {
    /// The functions.
    pub fn library(&self) -> Arc<Library> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl Librdkafka {
    /// Opens confluent-kafka's compiled module, and finds the functions of the librdkafka that the
    /// module is linked to.
    #[new]
    fn new(py: Python<'_>, module: OsString) -> PyResult<Self> {
        py.detach(|| Library::open(&module))
            .map(|library| Self(Arc::new(library)))
            .map_err(|error| {
                // The loader's own words, such as which symbol is missing, are in the source.
                let why = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                PyOSError::new_err(format!("librdkafka: {error}{}", why.unwrap_or_default()))
            })
    }

    /// Its version, as ``confluent_kafka.libversion()`` has it.
    #[getter]
    fn version(&self) -> String {
        // SAFETY: the function has no arguments, and its text is never freed.
        unsafe { text((self.0.version_str)()) }
    }
}

/// A C string as text; empty if there is none.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_string_is_empty_text() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { text(std::ptr::null()) }, "");
    }

    #[test]
    fn text_that_is_not_utf8_is_still_text() {
        // SAFETY: the literal ends with a zero byte.
        assert_eq!(unsafe { text(c"a\xff".as_ptr()) }, "a\u{fffd}");
    }

    #[test]
    fn a_library_without_the_functions_is_refused() {
        assert!(Library::open(OsStr::new("/no/such/librdkafka.so")).is_err());
    }
}
