//! Messages as librdkafka gave them, and the columns made of them with one copy each.

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyIndexError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::column::Column;
use crate::consumer::Handle;
use crate::detached::Detached;
use crate::librdkafka::{self, Library};

/// Validity bits, or none if every row is valid; 32-bit offsets; bytes; how many rows are null.
pub type Binary = (Option<Column>, Column, Column, usize);
/// Names and values; none where a name is not UTF-8.
type RowHeaders = Option<Vec<(String, Option<Py<PyBytes>>)>>;

/// The headers of a message; null if it has none.
struct Headers(*mut librdkafka::Headers);

// SAFETY: headers that are parsed may be read by any thread, and nothing changes them.
unsafe impl Send for Headers {}

/// Messages of one fetch, which go back to librdkafka with the last slice of them.
pub struct Fetched {
    messages: Vec<NonNull<librdkafka::Message>>,
    handle: Arc<Handle>,
    /// Held while headers are parsed, which changes a message.
    parsing: Mutex<()>,
}

// SAFETY: librdkafka's messages may be read and destroyed by any thread. What changes one is only
// ``rd_kafka_message_headers``, whose first call parses the headers into a part of the message that
// no other function called here reads; ``headers`` calls it with the lock.
unsafe impl Send for Fetched {}
// SAFETY: as above.
unsafe impl Sync for Fetched {}

impl Fetched {
    /// Takes over messages, none of which is an error.
    pub fn new(messages: Vec<NonNull<librdkafka::Message>>, handle: Arc<Handle>) -> Self {
        Self {
            messages,
            handle,
            parsing: Mutex::default(),
        }
    }

    /// The headers of the messages in a range, parsed.
    fn headers(&self, start: usize, end: usize) -> Vec<Headers> {
        let _alone = self.parsing.lock().unwrap_or_else(PoisonError::into_inner);
        let parsed = self.messages[start..end].iter().map(|message| {
            let mut headers = ptr::null_mut();
            // SAFETY: the message lives, and nobody else parses; without headers none are set.
            unsafe { (self.handle.library.message_headers)(message.as_ptr(), &raw mut headers) };
            Headers(headers)
        });
        parsed.collect()
    }

    /// Bytes of the payloads, keys and headers of the messages in a range.
    fn sizes(&self, start: usize, end: usize) -> Vec<i64> {
        let headers = self.headers(start, end);
        let messages = self.messages[start..end].iter().zip(headers);
        let sizes = messages.map(|(message, headers)| {
            // SAFETY: the message lives.
            let message = unsafe { message.as_ref() };
            let headers = headers_size(&self.handle.library, headers.0);
            (message.len + message.key_len + headers) as i64
        });
        sizes.collect()
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        for message in &self.messages {
            // SAFETY: each was taken over by ``new`` and is destroyed once; the client still exists.
            unsafe { (self.handle.library.message_destroy)(message.as_ptr()) };
        }
    }
}

/// Consecutive messages of one topic partition. Slices and sums share what was fetched.
#[pyclass(frozen)]
pub struct Messages {
    parts: Detached<Vec<(Arc<Fetched>, usize, usize)>>,
    rows: usize,
}

impl From<Fetched> for Messages {
    fn from(fetched: Fetched) -> Self {
        let rows = fetched.messages.len();
        Self {
            parts: vec![(Arc::new(fetched), 0, rows)].into(),
            rows,
        }
    }
}

impl Messages {
    fn each(&self) -> impl Iterator<Item = &librdkafka::Message> {
        self.parts.iter().flat_map(|(fetched, start, end)| {
            // SAFETY: ``fetched`` owns the messages for as long as ``self`` exists.
            fetched.messages[*start..*end]
                .iter()
                .map(|message| unsafe { message.as_ref() })
        })
    }

    /// The messages in rows `start <= row < end`.
    fn slice(&self, start: usize, end: usize) -> Self {
        let (mut parts, mut begin) = (Vec::new(), 0);
        for (fetched, from, to) in self.parts.iter() {
            let finish = begin + (to - from);
            let (low, high) = (start.max(begin), end.min(finish));
            if low < high {
                parts.push((Arc::clone(fetched), from + low - begin, from + high - begin));
            }
            begin = finish;
        }
        Self {
            parts: parts.into(),
            rows: end.saturating_sub(start),
        }
    }

    fn column(&self, field: fn(&librdkafka::Message) -> (*const u8, usize)) -> PyResult<Binary> {
        let size: usize = self.each().map(|message| field(message).1).sum();
        if i32::try_from(size).is_err() {
            return Err(PyOverflowError::new_err(format!(
                "{} messages with {size} bytes: an Arrow column of 2 GiB or more",
                self.rows
            )));
        }
        let (mut bytes, mut bounds) = (Vec::with_capacity(size), Vec::with_capacity(self.rows + 1));
        let (mut valid, mut nulls) = (vec![0_u8; self.rows.div_ceil(8)], 0);
        bounds.push(0);
        for (row, message) in self.each().enumerate() {
            let (start, length) = field(message);
            if start.is_null() {
                nulls += 1;
            } else {
                valid[row / 8] |= 1 << (row % 8);
                // SAFETY: librdkafka says where the field is and how long, and the message lives.
                bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, length) });
            }
            bounds.push(i32::try_from(bytes.len())?);
        }
        let valid = (nulls > 0).then(|| valid.into());
        Ok((valid, bounds.into(), bytes.into(), nulls))
    }

    fn headers_of(
        py: Python<'_>,
        library: &Library,
        headers: *const librdkafka::Headers,
    ) -> RowHeaders {
        if headers.is_null() {
            return Some(Vec::new());
        }
        let mut found = Vec::new();
        loop {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the message lives; the function says whether there is a header of this number.
            let error: c_int = unsafe {
                (library.header_get_all)(
                    headers,
                    found.len(),
                    &raw mut name,
                    &raw mut value,
                    &raw mut size,
                )
            };
            if error != 0 {
                return Some(found);
            }
            // SAFETY: a name ends with a zero byte.
            let name = unsafe { std::ffi::CStr::from_ptr(name) }
                .to_str()
                .ok()?
                .to_owned();
            let value = (!value.is_null()).then(|| {
                // SAFETY: librdkafka says where the value is and how long.
                let value = unsafe { std::slice::from_raw_parts(value.cast(), size) };
                PyBytes::new(py, value).unbind()
            });
            found.push((name, value));
        }
    }
}

/// Bytes of the names and values of headers; 0 where a name is not UTF-8.
fn headers_size(library: &Library, headers: *const librdkafka::Headers) -> usize {
    if headers.is_null() {
        return 0;
    }
    let (mut number, mut bytes) = (0, 0);
    loop {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the message lives; the function says whether there is a header of this number.
        let error: c_int = unsafe {
            (library.header_get_all)(
                headers,
                number,
                &raw mut name,
                &raw mut value,
                &raw mut size,
            )
        };
        if error != 0 {
            return bytes;
        }
        // SAFETY: a name ends with a zero byte.
        let Ok(name) = unsafe { std::ffi::CStr::from_ptr(name) }.to_str() else {
            return 0; // such headers are not read, and confluent-kafka cannot count them
        };
        bytes += name.len() + size;
        number += 1;
    }
}

#[pymethods]
impl Messages {
    /// No messages.
    #[new]
    fn empty() -> Self {
        Self {
            parts: Vec::new().into(),
            rows: 0,
        }
    }

    fn __len__(&self) -> usize {
        self.rows
    }

    /// The messages from ``start`` to before ``end``.
    fn part(&self, start: usize, end: usize) -> PyResult<Self> {
        if start > end || end > self.rows {
            return Err(PyIndexError::new_err(format!(
                "{start}:{end} of {} messages",
                self.rows
            )));
        }
        Ok(self.slice(start, end))
    }

    /// These messages and then others.
    fn joined(&self, later: &Self) -> Self {
        let parts = self
            .parts
            .iter()
            .chain(later.parts.iter())
            .map(|(f, s, e)| (Arc::clone(f), *s, *e));
        Self {
            parts: parts.collect::<Vec<_>>().into(),
            rows: self.rows + later.rows,
        }
    }

    /// Offsets, int64.
    fn offsets(&self, py: Python<'_>) -> Column {
        py.detach(|| {
            self.each()
                .map(|message| message.offset)
                .collect::<Vec<i64>>()
                .into()
        })
    }

    /// Sizes of the payloads, keys and headers together in bytes, int64.
    ///
    /// A tenth of a microsecond for each message: librdkafka has to parse the headers, even to say
    /// that there are none.
    fn sizes(&self, py: Python<'_>) -> Column {
        py.detach(|| {
            let parts = self.parts.iter();
            parts
                .flat_map(|(fetched, start, end)| fetched.sizes(*start, *end))
                .collect::<Vec<i64>>()
                .into()
        })
    }

    /// Sizes of the payloads in bytes, int64; 0 for a tombstone.
    fn payload_sizes(&self, py: Python<'_>) -> Column {
        py.detach(|| {
            self.each()
                .map(|message| message.len as i64)
                .collect::<Vec<_>>()
                .into()
        })
    }

    /// Timestamps in milliseconds, int64; -1 where there is none.
    fn timestamps(&self, py: Python<'_>) -> Column {
        py.detach(|| {
            let mut kind = 0;
            let each = self.parts.iter().flat_map(|(fetched, start, end)| {
                fetched.messages[*start..*end]
                    .iter()
                    .map(|m| (&fetched.handle.library, m))
            });
            each.map(|(library, message)| {
                // SAFETY: the message lives.
                unsafe { (library.message_timestamp)(message.as_ptr(), &raw mut kind) }
            })
            .collect::<Vec<i64>>()
            .into()
        })
    }

    /// Payloads; null is a tombstone.
    fn values(&self, py: Python<'_>) -> PyResult<Binary> {
        py.detach(|| self.column(|message| (message.payload, message.len)))
    }

    /// Keys; null where there is none.
    fn keys(&self, py: Python<'_>) -> PyResult<Binary> {
        py.detach(|| self.column(|message| (message.key, message.key_len)))
    }

    /// The headers of each message; None where a name is not UTF-8.
    fn headers(&self, py: Python<'_>) -> Vec<RowHeaders> {
        let parsed = py.detach(|| {
            let parts = self.parts.iter();
            let parsed = parts.map(|(fetched, start, end)| fetched.headers(*start, *end));
            parsed.collect::<Vec<_>>()
        });
        let of_parts = self.parts.iter().zip(&parsed);
        let rows = of_parts.flat_map(|((fetched, _, _), headers)| {
            let library = &fetched.handle.library;
            headers
                .iter()
                .map(move |headers| Self::headers_of(py, library, headers.0))
        });
        rows.collect()
    }

    /// The leader epoch of the last message; None if it is not known.
    fn leader_epoch(&self) -> Option<i32> {
        let last = self.each().last()?;
        // SAFETY: the message lives.
        let epoch = unsafe { (self.parts[0].0.handle.library.message_leader_epoch)(last) };
        (epoch >= 0).then_some(epoch)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::consumer::tests::client;

    unsafe extern "C" fn destroy_nothing(_: *mut librdkafka::Message) {}

    fn fetched(count: usize, functions: Library) -> Fetched {
        Fetched::new(
            vec![NonNull::dangling(); count],
            Arc::new(client(functions)),
        )
    }

    static PARSING: AtomicBool = AtomicBool::new(false);
    static TOGETHER: AtomicBool = AtomicBool::new(false);

    /// Notes whether two threads are in here.
    unsafe extern "C" fn parse(
        _: *const librdkafka::Message,
        _: *mut *mut librdkafka::Headers,
    ) -> c_int {
        if PARSING.swap(true, SeqCst) {
            TOGETHER.store(true, SeqCst);
        }
        thread::sleep(Duration::from_millis(1));
        PARSING.store(false, SeqCst);
        -156
    }

    #[test]
    fn only_one_thread_parses_headers() {
        let fetched = fetched(
            20,
            Library {
                message_headers: parse,
                message_destroy: destroy_nothing,
                ..Library::absent()
            },
        );

        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| fetched.headers(0, 20));
            }
        });

        assert!(!TOGETHER.load(SeqCst));
    }

    static DESTROYING: AtomicBool = AtomicBool::new(false);
    static PYTHON_RUNS: AtomicBool = AtomicBool::new(false);

    /// Ends when another thread has run Python, or never has.
    unsafe extern "C" fn wait_for_python(_: *mut librdkafka::Message) {
        DESTROYING.store(true, SeqCst);
        let start = Instant::now();
        while !PYTHON_RUNS.load(SeqCst) && start.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn python_runs_while_messages_are_destroyed() {
        Python::initialize();
        let messages = Messages::from(fetched(
            1,
            Library {
                message_destroy: wait_for_python,
                ..Library::absent()
            },
        ));

        let other = thread::spawn(|| {
            while !DESTROYING.load(SeqCst) {
                thread::yield_now();
            }
            Python::attach(|_| PYTHON_RUNS.store(true, SeqCst));
        });
        let took = Python::attach(|py| {
            let messages = Py::new(py, messages).unwrap();
            let start = Instant::now();
            drop(messages);
            start.elapsed()
        });
        other.join().unwrap();

        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}
