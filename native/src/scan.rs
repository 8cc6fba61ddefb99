//! JSON's grammar (RFC 8259), checked byte by byte; nothing is built.
//!
//! Stricter than the RFC where Python's decoder is, too: escapes must be Unicode without halves of
//! surrogate pairs. What is not accepted here is not wrong, but left to Python, whose word counts.

use crate::number::Number;

/// Nesting that Python's decoder is sure to accept, too: it stops near 1,000, less its own stack.
pub const MAX_DEPTH: u32 = 64;

/// The payload, or a wanted value in it, is left to Python.
#[derive(Debug, PartialEq)]
pub struct Left;

/// Where the content of a string is, and whether it has no escapes.
pub struct Text {
    /// The first byte after the opening quote.
    pub start: usize,
    /// The closing quote.
    pub end: usize,
    /// Whether the bytes are the text.
    pub plain: bool,
}

/// Reads one payload from its beginning.
pub struct Scanner<'a> {
    payload: &'a [u8],
    at: usize,
    /// All bytes of strings, together: whether one is not ASCII.
    seen: u64,
}

impl<'a> Scanner<'a> {
    /// Begins at the first byte.
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            payload,
            at: 0,
            seen: 0,
        }
    }

    /// The bytes of a text.
    pub fn bytes(&self, text: &Text) -> &'a [u8] {
        &self.payload[text.start..text.end]
    }

    /// The byte here; zero, which is allowed nowhere, at the end.
    fn peek(&self) -> u8 {
        self.payload.get(self.at).copied().unwrap_or(0)
    }

    /// Skips white space; returns the byte here.
    pub fn token(&mut self) -> u8 {
        loop {
            match self.peek() {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                found => return found,
            }
        }
    }

    /// Skips white space and this byte.
    pub fn expect(&mut self, byte: u8) -> Result<(), Left> {
        if self.token() != byte {
            return Err(Left);
        }
        self.at += 1;
        Ok(())
    }

    /// Whether this byte is next; skips it if so.
    pub fn accept(&mut self, byte: u8) -> bool {
        self.expect(byte).is_ok()
    }

    /// Skips white space to the end, which must be there, and checks that all is UTF-8.
    pub fn finish(&mut self) -> Result<(), Left> {
        self.token();
        let is_text = self.seen & HIGH == 0 || simdutf8::basic::from_utf8(self.payload).is_ok();
        if self.at == self.payload.len() && is_text {
            Ok(())
        } else {
            Err(Left)
        }
    }

    /// Reads a string.
    pub fn string(&mut self) -> Result<Text, Left> {
        self.expect(b'"')?;
        let (start, mut plain) = (self.at, true);
        loop {
            self.at += self.ordinary();
            match self.peek() {
                b'"' => break,
                b'\\' => {
                    plain = false;
                    self.escape()?;
                }
                _ => return Err(Left), // a control character, or the end
            }
        }
        self.at += 1;
        Ok(Text {
            start,
            end: self.at - 1,
            plain,
        })
    }

    /// How many bytes come before a quote, a backslash, a control character or the end.
    fn ordinary(&mut self) -> usize {
        let rest = &self.payload[self.at..];
        let mut length = 0;
        let (words, tail) = rest.as_chunks::<8>();
        for word in words {
            let word = u64::from_le_bytes(*word);
            self.seen |= word;
            let found = special(word);
            if found != 0 {
                return length + found.trailing_zeros() as usize / 8;
            }
            length += 8;
        }
        for byte in tail {
            self.seen |= u64::from(*byte);
            if matches!(byte, b'"' | b'\\' | 0..=0x1f) {
                break;
            }
            length += 1;
        }
        length
    }

    fn escape(&mut self) -> Result<(), Left> {
        self.at += 1;
        let kind = self.peek();
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => match self.code_unit()? {
                0xd800..0xdc00 => {
                    let is_escape = self.payload[self.at..].starts_with(b"\\u");
                    self.at += 2;
                    let is_pair = is_escape && matches!(self.code_unit()?, 0xdc00..0xe000);
                    if is_pair { Ok(()) } else { Err(Left) }
                }
                0xdc00..0xe000 => Err(Left),
                _ => Ok(()),
            },
            _ => Err(Left),
        }
    }

    /// Reads four hexadecimal digits.
    fn code_unit(&mut self) -> Result<u32, Left> {
        let digits = self.payload.get(self.at..self.at + 4).ok_or(Left)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, digit| {
            Ok(unit << 4 | char::from(*digit).to_digit(16).ok_or(Left)?)
        })
    }

    /// Reads `true`, `false` or `null`.
    pub fn literal(&mut self, literal: &[u8]) -> Result<(), Left> {
        if !self.payload[self.at..].starts_with(literal) {
            return Err(Left);
        }
        self.at += literal.len();
        Ok(())
    }

    /// Reads a number.
    pub fn number(&mut self) -> Result<Number, Left> {
        let negative = self.peek() == b'-';
        self.at += usize::from(negative);
        let mut number = Number {
            negative,
            ..Number::default()
        };
        let is_zero = self.peek() == b'0';
        self.digits(&mut number)?;
        if is_zero && number.digits > 1 {
            return Err(Left);
        }
        if self.peek() == b'.' {
            self.at += 1;
            let before = number.digits;
            self.digits(&mut number)?;
            number.is_float = true;
            number.exponent = -i64::try_from(number.digits - before).map_err(|_| Left)?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            number.is_float = true;
            number.exponent += self.exponent()?;
        }
        Ok(number)
    }

    /// Reads one digit or more.
    fn digits(&mut self, number: &mut Number) -> Result<(), Left> {
        let start = self.at;
        while let digit @ b'0'..=b'9' = self.peek() {
            let digit = u64::from(digit - b'0');
            number.mantissa = number.mantissa.wrapping_mul(10).wrapping_add(digit);
            self.at += 1;
        }
        number.digits += self.at - start;
        if self.at > start { Ok(()) } else { Err(Left) }
    }

    fn exponent(&mut self) -> Result<i64, Left> {
        let sign = self.peek();
        self.at += usize::from(matches!(sign, b'+' | b'-'));
        let (start, mut exponent) = (self.at, 0_i64);
        while let digit @ b'0'..=b'9' = self.peek() {
            exponent = exponent
                .saturating_mul(10)
                .saturating_add(i64::from(digit - b'0'));
            self.at += 1;
        }
        // Beyond what is exact, however long the fraction is.
        let exponent = if self.at - start > 9 {
            i64::MAX / 2
        } else {
            exponent
        };
        match self.at > start {
            true => Ok(if sign == b'-' { -exponent } else { exponent }),
            false => Err(Left),
        }
    }

    /// Reads any value inside `depth` objects and arrays.
    pub fn skip(&mut self, depth: u32) -> Result<(), Left> {
        // One bit for each level that is open: whether it is an object.
        let (mut levels, mut open) = (0_u64, 0);
        loop {
            match self.token() {
                b'"' => {
                    self.string()?;
                }
                byte @ (b'{' | b'[') => {
                    self.at += 1;
                    let is_object = byte == b'{';
                    if !self.accept(if is_object { b'}' } else { b']' }) {
                        open += 1;
                        if depth + open > MAX_DEPTH {
                            return Err(Left);
                        }
                        levels = levels << 1 | u64::from(is_object);
                        if is_object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b't' => self.literal(b"true")?,
                b'f' => self.literal(b"false")?,
                b'n' => self.literal(b"null")?,
                _ => {
                    self.number()?;
                }
            }
            loop {
                if open == 0 {
                    return Ok(());
                }
                let is_object = levels & 1 == 1;
                match self.token() {
                    b',' => {
                        self.at += 1;
                        if is_object {
                            self.key()?;
                        }
                        break;
                    }
                    b'}' if is_object => {}
                    b']' if !is_object => {}
                    _ => return Err(Left),
                }
                self.at += 1;
                levels >>= 1;
                open -= 1;
            }
        }
    }

    /// Reads a key and the colon after it.
    pub fn key(&mut self) -> Result<Text, Left> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }
}

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES << 7;

/// The high bit of bytes that end a run of ordinary ones; right up to the first such byte.
fn special(word: u64) -> u64 {
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = is_zero(word ^ (ONES * u64::from(b'"')));
    let backslash = is_zero(word ^ (ONES * u64::from(b'\\')));
    (control | quote | backslash) & HIGH
}

#[cfg(test)]
mod tests;
