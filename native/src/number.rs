//! Numbers of JSON as Python's decoder reads them, or none where it may not be the same value.

/// A number as it is written: `mantissa * 10^exponent`.
#[derive(Default)]
pub struct Number {
    /// Whether there is a minus.
    pub negative: bool,
    /// Of all digits; wrong if there are more than 19.
    pub mantissa: u64,
    /// How many digits there are, without those of the exponent.
    pub digits: usize,
    /// Negative for digits after the point; not exact where it is far out of range.
    pub exponent: i64,
    /// Whether it has a point or an exponent.
    pub is_float: bool,
}

impl Number {
    /// The integer, if it is one of 64 bits.
    pub fn integer(&self) -> Option<i64> {
        let size = i64::try_from(self.mantissa).ok()?;
        let exact = !self.is_float && self.digits <= 19;
        exact.then_some(if self.negative { -size } else { size })
    }

    /// The float, if one division or multiplication of exact doubles gives the nearest.
    pub fn float(&self) -> Option<f64> {
        const EXACT: [f64; 23] = [
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
        ];
        if !self.is_float || self.digits > 19 || self.mantissa >> 53 != 0 {
            return None;
        }
        let power = EXACT.get(usize::try_from(self.exponent.unsigned_abs()).ok()?)?;
        let mantissa = self.mantissa as f64; // at most 53 bits
        let size = if self.exponent < 0 {
            mantissa / power
        } else {
            mantissa * power
        };
        Some(if self.negative { -size } else { size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Scanner;

    fn number(text: &str) -> Number {
        Scanner::new(text.as_bytes()).number().ok().unwrap()
    }

    #[test]
    fn integers_are_exact_or_none() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-1", Some(-1)),
            ("1763683200000000000", Some(1_763_683_200_000_000_000)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775807", Some(-i64::MAX)),
            ("9223372036854775808", None),
            ("18446744073709551616", None),
            ("100000000000000000000000001", None),
            ("1.0", None),
            ("1e2", None),
        ] {
            assert_eq!(number(text).integer(), expected, "{text}");
        }
    }

    #[test]
    fn floats_are_the_nearest_or_none() {
        for text in [
            "1.0",
            "0.1",
            "-2.5e3",
            "1763683200.123",
            "1E22",
            "1e-22",
            "0.0",
            "123e-5",
        ] {
            assert_eq!(number(text).float(), Some(text.parse().unwrap()), "{text}");
        }
        for text in [
            "1",
            "1e23",
            "1e-23",
            "9007199254740993.0",
            "0.12345678901234567890",
            "1e9999999999",
        ] {
            assert_eq!(number(text).float(), None, "{text}");
        }
        assert!(number("-0.0").float().unwrap().is_sign_negative());
    }
}
