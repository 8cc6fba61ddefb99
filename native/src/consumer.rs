//! A Kafka consumer that assigns, seeks and fetches, and nothing else.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;

use crate::detached::Detached;
use crate::librdkafka::{self, Library, Librdkafka, text};
use crate::messages::{Fetched, Messages};
use crate::positions::{Position, Positions};

const CONSUMER: c_int = 1;
const CONF_OK: c_int = 0;
const INVALID_ARGUMENT: c_int = -186;

pyo3::create_exception!(
    landfall_native,
    ClientError,
    PyException,
    "What librdkafka refused; the arguments are its code and its message."
);

fn client_error(code: c_int, message: String) -> PyErr {
    PyErr::new::<ClientError, _>((code, message))
}

/// Errors that librdkafka reported of the whole client: codes and messages, oldest first.
type Reported = Mutex<Vec<(c_int, String)>>;
/// An error in place of a message: code, message, topic, Kafka partition, offset.
type FetchError = (c_int, String, Option<String>, Option<i32>, Option<i64>);
/// The messages of each topic partition, and errors.
type Fetch = (Vec<(String, i32, Messages)>, Vec<FetchError>);
/// A topic's name, error code and message, and Kafka partitions.
type Described = (String, c_int, String, Vec<i32>);

/// A client that exists until the last message that it gave is gone.
pub struct Handle {
    /// What it is called by.
    pub library: Arc<Library>,
    client: NonNull<librdkafka::Client>,
    queue: NonNull<librdkafka::Queue>,
    /// Named by the client as its opaque pointer, so it must not move.
    reported: Box<Reported>,
}

// SAFETY: librdkafka's clients and queues may be used by any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nothing else has the queue or the client any more, and messages are gone.
        unsafe {
            (self.library.queue_destroy)(self.queue.as_ptr());
            (self.library.destroy)(self.client.as_ptr());
        }
    }
}

/// Called by librdkafka, in a call of ours, with the opaque pointer of the client.
unsafe extern "C" fn report(
    _client: *mut librdkafka::Client,
    code: c_int,
    reason: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: ``open`` gave this pointer, to what the handle owns until after the client is gone.
    let reported = unsafe { &*opaque.cast::<Reported>() };
    // SAFETY: librdkafka's reasons end with a zero byte.
    let reason = unsafe { text(reason) };
    reported
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((code, reason));
}

fn open(library: Arc<Library>, properties: &[(CString, Option<CString>)]) -> PyResult<Handle> {
    let mut reason = [0 as c_char; 512];
    let reported = Box::new(Reported::default());
    // SAFETY: the configuration is destroyed, or taken over by the client, exactly once; reasons are
    // no longer than the array and end with a zero byte.
    unsafe {
        let conf = (library.conf_new)();
        for (name, value) in properties {
            let value = value.as_ref().map_or(ptr::null(), |value| value.as_ptr());
            let (start, size) = (reason.as_mut_ptr(), reason.len());
            if (library.conf_set)(conf, name.as_ptr(), value, start, size) != CONF_OK {
                (library.conf_destroy)(conf);
                return Err(client_error(INVALID_ARGUMENT, text(reason.as_ptr())));
            }
        }
        (library.conf_set_opaque)(conf, ptr::from_ref::<Reported>(&reported).cast_mut().cast());
        (library.conf_set_error_cb)(conf, report);
        let client = (library.new)(CONSUMER, conf, reason.as_mut_ptr(), reason.len());
        let Some(client) = NonNull::new(client) else {
            (library.conf_destroy)(conf);
            let message = format!("Failed to create consumer: {}", text(reason.as_ptr()));
            return Err(client_error((library.last_error)(), message));
        };
        (library.poll_set_consumer)(client.as_ptr());
        let queue = NonNull::new((library.queue_get_consumer)(client.as_ptr()));
        let queue = queue.ok_or_else(|| PyRuntimeError::new_err("a consumer without a queue"))?;
        Ok(Handle {
            library,
            client,
            queue,
            reported,
        })
    }
}

impl Handle {
    fn client(&self) -> *mut librdkafka::Client {
        self.client.as_ptr()
    }

    fn describe(&self, code: c_int) -> String {
        // SAFETY: the text of a code is never freed.
        unsafe { text((self.library.err2str)(code)) }
    }

    fn check(&self, code: c_int, failed: &str) -> PyResult<()> {
        if code == 0 {
            return Ok(());
        }
        Err(client_error(
            code,
            format!("{failed}: {}", self.describe(code)),
        ))
    }

    /// Takes what has arrived, and returns how many messages that is.
    fn take(
        &self,
        buffer: &mut [*mut librdkafka::Message],
        milliseconds: c_int,
    ) -> PyResult<usize> {
        // SAFETY: there is room for as many messages as the call is told.
        let found = unsafe {
            let (start, size) = (buffer.as_mut_ptr(), buffer.len());
            (self.library.consume_batch_queue)(self.queue.as_ptr(), milliseconds, start, size)
        };
        usize::try_from(found).map_err(|_| {
            // SAFETY: the call has no arguments.
            let code = unsafe { (self.library.last_error)() };
            client_error(code, self.describe(code))
        })
    }

    /// Gives messages back that nothing refers to.
    fn destroy(&self, messages: &[*mut librdkafka::Message]) {
        for message in messages {
            // SAFETY: ``take`` gave it, and nothing else destroys it.
            unsafe { (self.library.message_destroy)(*message) };
        }
    }

    fn fetch(self: &Arc<Self>, limit: usize, milliseconds: c_int) -> PyResult<Fetch> {
        let mut buffer = vec![ptr::null_mut(); limit.max(1)];
        // librdkafka waits until it has as many as it is asked for. So wait for the first only.
        let mut taken = self.take(&mut buffer[..1], milliseconds)?;
        if taken > 0 && limit > 1 {
            match self.take(&mut buffer[1..], 0) {
                Ok(more) => taken += more,
                Err(error) => {
                    self.destroy(&buffer[..taken]);
                    return Err(error);
                }
            }
        }
        let mut groups: Vec<(
            *mut librdkafka::Topic,
            i32,
            Vec<NonNull<librdkafka::Message>>,
        )> = Vec::new();
        let mut errors = Vec::new();
        for message in buffer[..taken]
            .iter()
            .filter_map(|message| NonNull::new(*message))
        {
            // SAFETY: the message is ours until it is destroyed.
            let found = unsafe { message.as_ref() };
            if found.err != 0 {
                errors.push(self.error_of(found));
                self.destroy(&[message.as_ptr()]);
                continue;
            }
            let place = (found.rkt, found.partition);
            match groups
                .iter_mut()
                .rfind(|(topic, partition, _)| (*topic, *partition) == place)
            {
                Some((_, _, messages)) => messages.push(message),
                None => groups.push((place.0, place.1, vec![message])),
            }
        }
        let groups = groups.into_iter().map(|(topic, partition, messages)| {
            let fetched = Fetched::new(messages, Arc::clone(self));
            // SAFETY: a message that lives keeps its topic.
            (
                unsafe { text((self.library.topic_name)(topic)) },
                partition,
                fetched.into(),
            )
        });
        Ok((groups.collect(), errors))
    }

    fn error_of(&self, found: &librdkafka::Message) -> FetchError {
        let topic = (!found.rkt.is_null())
            // SAFETY: a message that lives keeps its topic.
            .then(|| unsafe { text((self.library.topic_name)(found.rkt)) });
        (
            found.err,
            // SAFETY: the message lives.
            unsafe { text((self.library.message_errstr)(found)) },
            topic,
            (found.partition != -1).then_some(found.partition),
            (found.offset >= 0).then_some(found.offset),
        )
    }

    fn describe_topic(&self, topic: &CString, milliseconds: c_int) -> PyResult<Vec<Described>> {
        let mut found: *const librdkafka::Metadata = ptr::null();
        // SAFETY: topic and answer are given back once each; lists are as long as they say.
        unsafe {
            let asked = (self.library.topic_new)(self.client(), topic.as_ptr(), ptr::null_mut());
            if asked.is_null() {
                return self
                    .check((self.library.last_error)(), "Unable to create topic object")
                    .map(|()| Vec::new());
            }
            let code =
                (self.library.metadata)(self.client(), 0, asked, &raw mut found, milliseconds);
            (self.library.topic_destroy)(asked);
            self.check(code, "Failed to get metadata")?;
            let topics = slice((*found).topics, (*found).topic_count);
            let described = topics.iter().map(|topic| {
                let partitions = slice(topic.partitions, topic.partition_count);
                let ids = partitions.iter().map(|partition| partition.id).collect();
                (text(topic.topic), topic.err, self.describe(topic.err), ids)
            });
            let described = described.collect();
            (self.library.metadata_destroy)(found);
            Ok(described)
        }
    }
}

/// A list of C.
///
/// # Safety
/// `start` points to `count` values, unless there are none.
unsafe fn slice<'a, T>(start: *const T, count: c_int) -> &'a [T] {
    match usize::try_from(count) {
        // SAFETY: the caller's promise.
        Ok(count) if count > 0 && !start.is_null() => unsafe {
            std::slice::from_raw_parts(start, count)
        },
        _ => &[],
    }
}

/// A consumer that joins no group. Its errors are those of confluent-kafka's ``Consumer``.
#[pyclass(frozen)]
pub struct Consumer(Detached<Mutex<Option<Arc<Handle>>>>);

impl Consumer {
    fn handle(&self) -> PyResult<Arc<Handle>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone()
            .ok_or_else(|| PyRuntimeError::new_err("Consumer closed"))
    }
}

#[pymethods]
impl Consumer {
    /// Creates a consumer with properties in this order.
    #[new]
    fn new(
        py: Python<'_>,
        librdkafka: &Librdkafka,
        properties: Vec<(CString, Option<CString>)>,
    ) -> PyResult<Self> {
        let library = librdkafka.library();
        let handle = py.detach(|| open(library, &properties))?;
        Ok(Self(Mutex::new(Some(Arc::new(handle))).into()))
    }

    /// Begins to fetch topic partitions, and those only.
    fn assign(&self, py: Python<'_>, positions: Vec<Position>) -> PyResult<()> {
        let handle = self.handle()?;
        py.detach(|| {
            let positions = Positions::new(&handle.library, &positions)?;
            // SAFETY: client and list exist.
            let code = unsafe { (handle.library.assign)(handle.client(), positions.list) };
            handle.check(code, "Failed to set assignment")
        })
    }

    /// Stops fetching.
    fn unassign(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle()?;
        py.detach(|| {
            // SAFETY: the client exists; no list means no topic partitions.
            let code = unsafe { (handle.library.assign)(handle.client(), ptr::null()) };
            handle.check(code, "Failed to remove assignment")
        })
    }

    /// Continues a topic partition that is assigned at another position.
    fn seek(&self, py: Python<'_>, position: Position) -> PyResult<()> {
        let handle = self.handle()?;
        py.detach(|| {
            let failed = format!("Failed to seek to offset {}", position.2);
            let positions = Positions::new(&handle.library, &[position])?;
            // SAFETY: client and list exist; the error is destroyed once.
            let code = unsafe {
                let error = (handle.library.seek_partitions)(handle.client(), positions.list, -1);
                if error.is_null() {
                    (*(*positions.list).elems).err
                } else {
                    let code = (handle.library.error_code)(error);
                    (handle.library.error_destroy)(error);
                    code
                }
            };
            handle.check(code, &failed)
        })
    }

    /// The next messages by topic partition, and errors; waits only for the first.
    fn fetch(&self, py: Python<'_>, limit: usize, milliseconds: c_int) -> PyResult<Fetch> {
        let handle = self.handle()?;
        py.detach(|| handle.fetch(limit, milliseconds))
    }

    /// What the broker says of a topic.
    fn metadata(
        &self,
        py: Python<'_>,
        topic: CString,
        milliseconds: c_int,
    ) -> PyResult<Vec<Described>> {
        let handle = self.handle()?;
        py.detach(|| handle.describe_topic(&topic, milliseconds))
    }

    /// Lets librdkafka report errors of the whole client, while nothing is assigned.
    fn poll(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle()?;
        py.detach(|| {
            // SAFETY: the client exists; a message would be ours.
            unsafe {
                let message = (handle.library.consumer_poll)(handle.client(), 0);
                if !message.is_null() {
                    handle.destroy(&[message]);
                }
            }
        });
        Ok(())
    }

    /// The errors of the whole client since the last call: codes and messages, oldest first.
    fn reported(&self) -> PyResult<Vec<(c_int, String)>> {
        let handle = self.handle()?;
        let mut reported = handle
            .reported
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *reported))
    }

    /// Stops fetching, for good; whatever was fetched stays readable.
    ///
    /// Connections and threads of the client end now, or with the last message that was fetched.
    fn close(&self, py: Python<'_>) {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = held {
            py.detach(|| {
                // SAFETY: the client exists.
                unsafe { (handle.library.consumer_close)(handle.client()) };
                drop(handle);
            });
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    unsafe extern "C" fn no_queue(_: *mut librdkafka::Queue) {}
    unsafe extern "C" fn no_client(_: *mut librdkafka::Client) {}

    /// A client of these functions, which must be those that a test needs.
    pub fn client(functions: Library) -> Handle {
        Handle {
            library: Arc::new(Library {
                queue_destroy: no_queue,
                destroy: no_client,
                ..functions
            }),
            client: NonNull::dangling(),
            queue: NonNull::dangling(),
            reported: Box::default(),
        }
    }

    static DESTROYED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn count_destroyed(_: *mut librdkafka::Message) {
        DESTROYED.fetch_add(1, SeqCst);
    }

    /// One message for who waits, and an error for who does not.
    unsafe extern "C" fn one_then_error(
        _: *mut librdkafka::Queue,
        milliseconds: c_int,
        messages: *mut *mut librdkafka::Message,
        _: usize,
    ) -> isize {
        if milliseconds == 0 {
            return -1;
        }
        // SAFETY: there is room for one message, which nobody reads.
        unsafe { *messages = NonNull::dangling().as_ptr() };
        1
    }

    unsafe extern "C" fn last_error() -> c_int {
        -195
    }

    unsafe extern "C" fn err2str(_: c_int) -> *const c_char {
        c"broker transport failure".as_ptr()
    }

    #[test]
    fn a_message_before_an_error_is_given_back() {
        let client = Arc::new(client(Library {
            consume_batch_queue: one_then_error,
            message_destroy: count_destroyed,
            last_error,
            err2str,
            ..Library::absent()
        }));

        assert!(client.fetch(10, 100).is_err());

        assert_eq!(DESTROYED.load(SeqCst), 1);
    }
}
