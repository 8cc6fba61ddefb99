//! Thrift's compact protocol, written again in its binary protocol, which whole columns are read
//! from.
//!
//! Source: "Thrift Compact protocol encoding" and "Thrift Binary protocol encoding", doc/specs in
//! the Apache Thrift repository.

use pyo3::prelude::*;

use crate::column::Column;
use crate::rows::{Rows, Selected};

/// Structs inside of each other that the reader of columns takes.
const MAX_LEVELS: u32 = 16;

/// The types of the compact protocol; a field has its value with `TRUE` and `FALSE`.
mod compact {
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const STRING: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const STRUCT: u8 = 12;
    pub const UUID: u8 = 13;
}

/// The types of the binary protocol.
mod binary {
    pub const STOP: u8 = 0;
    pub const BOOL: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const DOUBLE: u8 = 4;
    pub const I16: u8 = 6;
    pub const I32: u8 = 8;
    pub const I64: u8 = 10;
    pub const STRING: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const SET: u8 = 14;
    pub const LIST: u8 = 15;
    pub const UUID: u8 = 16;
}

/// Each payload of the compact protocol as one of the binary protocol: int32 bounds and bytes of an
/// Arrow binary column.
///
/// A payload is empty, which no struct is, if it is left to the reader of single payloads: if it is
/// not exactly one struct, has a map or a list of other things than numbers, is nested deeply, or if
/// an Arrow column has no room for it. Lists are written without their items, which nobody reads
/// from columns, once these were checked.
#[pyfunction]
pub fn thrift_binary(py: Python<'_>, payloads: Selected) -> PyResult<(Column, Column)> {
    let rows = Rows::of(&payloads)?;
    Ok(py.detach(|| {
        let (mut bounds, mut out) = (Vec::with_capacity(rows.len() + 1), Vec::new());
        bounds.push(0);
        let mut last = 0;
        for payload in rows.values() {
            let start = out.len();
            let mut reader = Reader { rest: payload };
            let is_one = reader.structure(&mut out, 1).is_some() && reader.rest.is_empty();
            match i32::try_from(out.len()) {
                Ok(end) if is_one => last = end,
                _ => out.truncate(start),
            }
            bounds.push(last);
        }
        (bounds.into(), out.into())
    }))
}

/// What is left of a payload; `None` of a method leaves the whole payload.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// A varint that fits in so many bits.
    fn varint(&mut self, bits: u32) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..bits).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7F);
            if part << shift >> shift != part {
                return None;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Some(number).filter(|number| bits == u64::BITS || number >> bits == 0);
            }
        }
        None
    }

    fn zigzag(&mut self, bits: u32) -> Option<i64> {
        let number = self.varint(bits)?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// Writes a struct.
    fn structure(&mut self, out: &mut Vec<u8>, level: u32) -> Option<()> {
        let mut id = 0_i64;
        loop {
            let header = self.byte()?;
            if header == 0 {
                out.push(binary::STOP);
                return Some(());
            }
            let (delta, kind) = (header >> 4, header & 15);
            id = match delta {
                0 => self.zigzag(16)?,
                _ => id + i64::from(delta),
            };
            out.push(wire(kind)?);
            out.extend_from_slice(&i16::try_from(id).ok()?.to_be_bytes());
            self.value(kind, out, level)?;
        }
    }

    fn value(&mut self, kind: u8, out: &mut Vec<u8>, level: u32) -> Option<()> {
        match kind {
            compact::TRUE | compact::FALSE => out.push(u8::from(kind == compact::TRUE)),
            compact::BYTE => out.push(self.byte()?),
            compact::I16 => out.extend_from_slice(&self.zigzag(16)?.to_be_bytes()[6..]),
            compact::I32 => out.extend_from_slice(&self.zigzag(32)?.to_be_bytes()[4..]),
            compact::I64 => out.extend_from_slice(&self.zigzag(64)?.to_be_bytes()),
            compact::DOUBLE => out.extend(self.take(8)?.iter().rev()),
            compact::STRING => {
                let text = self.bytes()?;
                // Payloads are shorter than 2 GiB.
                out.extend_from_slice(&(text.len() as u32).to_be_bytes());
                out.extend_from_slice(text);
            }
            compact::LIST | compact::SET => {
                out.push(self.numbers()?);
                out.extend_from_slice(&[0; 4]);
            }
            compact::STRUCT if level < MAX_LEVELS => self.structure(out, level + 1)?,
            compact::UUID => out.extend_from_slice(self.take(16)?),
            _ => return None,
        }
        Some(())
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let size = self.varint(32)?;
        self.take(usize::try_from(size).ok()?)
    }

    /// Skips a list of numbers; returns the type of its items.
    fn numbers(&mut self) -> Option<u8> {
        let header = self.byte()?;
        let kind = header & 15;
        let count = match header >> 4 {
            15 => usize::try_from(self.varint(32)?).ok()?,
            few => usize::from(few),
        };
        if count > self.rest.len() {
            return None;
        }
        match kind {
            compact::TRUE | compact::FALSE | compact::BYTE => drop(self.take(count)?),
            compact::DOUBLE => drop(self.take(count.checked_mul(8)?)?),
            compact::UUID => drop(self.take(count.checked_mul(16)?)?),
            compact::I16 => (0..count).try_for_each(|_| self.varint(16).map(drop))?,
            compact::I32 => (0..count).try_for_each(|_| self.varint(32).map(drop))?,
            compact::I64 => (0..count).try_for_each(|_| self.varint(64).map(drop))?,
            _ => return None,
        }
        wire(kind)
    }
}

/// The type in the binary protocol.
fn wire(kind: u8) -> Option<u8> {
    Some(match kind {
        compact::TRUE | compact::FALSE => binary::BOOL,
        compact::BYTE => binary::BYTE,
        compact::I16 => binary::I16,
        compact::I32 => binary::I32,
        compact::I64 => binary::I64,
        compact::DOUBLE => binary::DOUBLE,
        compact::STRING => binary::STRING,
        compact::LIST => binary::LIST,
        compact::SET => binary::SET,
        compact::STRUCT => binary::STRUCT,
        compact::UUID => binary::UUID,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Reader;

    fn varint(bytes: &[u8], bits: u32) -> Option<u64> {
        let mut reader = Reader { rest: bytes };
        reader.varint(bits).filter(|_| reader.rest.is_empty())
    }

    #[test]
    fn numbers_fit_in_their_bits() {
        assert_eq!(varint(&[0x7F], 16), Some(0x7F));
        assert_eq!(varint(&[0xFF, 0xFF, 3], 16), Some(0xFFFF));
        assert_eq!(varint(&[0xFF, 0xFF, 4], 16), None);
        assert_eq!(varint(&[0xFF, 0xFF, 0x83, 0], 16), None);
        assert_eq!(varint(&[0x80, 0x80, 0], 16), Some(0));
        assert_eq!(
            varint(
                &[0xFF; 9].iter().copied().chain([1]).collect::<Vec<_>>(),
                64
            ),
            Some(u64::MAX)
        );
        assert_eq!(
            varint(
                &[0xFF; 9].iter().copied().chain([2]).collect::<Vec<_>>(),
                64
            ),
            None
        );
        assert_eq!(varint(&[0x80], 64), None);
    }
}
