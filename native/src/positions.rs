//! Lists of positions in the form that librdkafka takes.

use std::ffi::{CString, c_int};

use pyo3::prelude::*;

use crate::librdkafka::{self, Library};

const NO_LEADER_EPOCH: i32 = -1;

/// Where to begin reading a topic partition: topic, Kafka partition, offset, leader epoch.
pub type Position = (CString, i32, i64, Option<i32>);

/// A list of positions, destroyed with this.
pub struct Positions<'a> {
    library: &'a Library,
    /// The list, as librdkafka takes it.
    pub list: *mut librdkafka::TopicPartitions,
}

impl<'a> Positions<'a> {
    /// Copies positions into a list.
    pub fn new(library: &'a Library, positions: &[Position]) -> PyResult<Self> {
        let count = c_int::try_from(positions.len())?;
        // SAFETY: the list has room for all; librdkafka copies the names.
        unsafe {
            let list = (library.topic_partition_list_new)(count);
            for (topic, partition, offset, epoch) in positions {
                let added = (library.topic_partition_list_add)(list, topic.as_ptr(), *partition);
                (*added).offset = *offset;
                let epoch = epoch.unwrap_or(NO_LEADER_EPOCH);
                (library.topic_partition_set_leader_epoch)(added, epoch);
            }
            Ok(Self { library, list })
        }
    }
}

impl Drop for Positions<'_> {
    fn drop(&mut self) {
        // SAFETY: the list is destroyed once.
        unsafe { (self.library.topic_partition_list_destroy)(self.list) };
    }
}
