//! The values that are wanted of a JSON object, and their search in one pass.

use std::collections::HashMap;

use crate::scan::{Left, MAX_DEPTH, Scanner};

/// Integers of 64 bits.
pub const INT64: u8 = 1;
/// Integers of 32 bits.
pub const INT32: u8 = 2;
/// Floats.
pub const FLOAT: u8 = 4;
/// `true` and `false`.
pub const BOOL: u8 = 8;
/// Strings.
pub const TEXT: u8 = 16;

/// What one payload holds at one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// Nothing, so far.
    Absent,
    /// Whatever Python says.
    Left,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string without escapes: where it begins and ends in the payloads.
    Text(u32, u32),
}

enum Found {
    /// The value of a column, of one of these kinds.
    Value(usize, u8),
    /// An object with values that are wanted.
    Object(usize),
}

/// How many names are compared one after the other; more are found by their hash.
const FEW: usize = 16;

#[derive(Default)]
struct Object {
    /// One bit for each length of a name, longer ones together.
    lengths: u64,
    names: Vec<(Box<[u8]>, Found)>,
    /// Where each name is, if they are more than a few.
    places: HashMap<Box<[u8]>, usize>,
}

fn length_bit(name: &[u8]) -> u64 {
    1 << name.len().min(63)
}

/// Wanted paths as a tree of objects; the first is the payload.
pub struct Wanted {
    objects: Vec<Object>,
    columns: usize,
}

impl Wanted {
    /// Takes paths and kinds of their values, or none: if a path is in another, nests too deep or
    /// is empty.
    pub fn new(paths: &[(Vec<String>, u8)]) -> Option<Self> {
        let mut wanted = Self {
            objects: vec![Object::default()],
            columns: paths.len(),
        };
        for (column, (path, kinds)) in paths.iter().enumerate() {
            let (last, parents) = path.split_last()?;
            if parents.len() >= MAX_DEPTH as usize {
                return None;
            }
            let mut object = 0;
            for name in parents {
                object = wanted.object_in(object, name.as_bytes())?;
            }
            wanted.add(object, last.as_bytes(), Found::Value(column, *kinds))?;
        }
        Some(wanted)
    }

    /// How many paths there are.
    pub fn columns(&self) -> usize {
        self.columns
    }

    fn object_in(&mut self, object: usize, name: &[u8]) -> Option<usize> {
        let known = &self.objects[object];
        match known.find(name).map(|place| &known.names[place].1) {
            Some(Found::Object(inner)) => Some(*inner),
            Some(Found::Value(..)) => None,
            None => {
                self.objects.push(Object::default());
                let inner = self.objects.len() - 1;
                self.add(object, name, Found::Object(inner))?;
                Some(inner)
            }
        }
    }

    fn add(&mut self, object: usize, name: &[u8], found: Found) -> Option<()> {
        let object = &mut self.objects[object];
        if object.find(name).is_some() {
            return None;
        }
        object.lengths |= length_bit(name);
        object.names.push((name.into(), found));
        if object.names.len() > FEW {
            let new = object.places.len()..object.names.len();
            let names = new.map(|place| (object.names[place].0.clone(), place));
            object.places.extend(names);
        }
        Some(())
    }
}

impl Object {
    /// The place of a name, if it is wanted.
    fn find(&self, name: &[u8]) -> Option<usize> {
        if self.lengths & length_bit(name) == 0 {
            return None;
        }
        if self.names.len() > FEW {
            return self.places.get(name).copied();
        }
        self.names.iter().position(|(known, _)| **known == *name)
    }
}

/// Finds wanted values in payloads, one after the other.
pub struct Search<'a> {
    wanted: &'a Wanted,
    /// For each object the last payload in which it was found, counted from one.
    found_in: Vec<usize>,
    /// For each object the place that came after each place in the payload before, and first the
    /// one that came first: producers write the names of all payloads in one order.
    next: Vec<Vec<usize>>,
    payloads: usize,
}

impl<'a> Search<'a> {
    /// Nothing is searched yet.
    pub fn new(wanted: &'a Wanted) -> Self {
        Self {
            wanted,
            found_in: vec![0; wanted.objects.len()],
            next: wanted
                .objects
                .iter()
                .map(|object| (0..=object.names.len()).collect())
                .collect(),
            payloads: 0,
        }
    }

    /// Fills the cells, one for each path, which are absent before.
    ///
    /// `start` is where the payload begins among others. What is left to Python leaves any cells.
    pub fn payload(&mut self, payload: &[u8], start: u32, cells: &mut [Cell]) -> Result<(), Left> {
        self.payloads += 1;
        let mut scanner = Scanner::new(payload);
        self.object(&mut scanner, 0, 1, start, cells)?;
        scanner.finish()
    }

    fn object(
        &mut self,
        scanner: &mut Scanner,
        object: usize,
        depth: u32,
        start: u32,
        cells: &mut [Cell],
    ) -> Result<(), Left> {
        scanner.expect(b'{')?;
        if scanner.accept(b'}') {
            return Ok(());
        }
        let wanted = &self.wanted.objects[object];
        let mut before = 0;
        loop {
            let key = scanner.key()?;
            if !key.plain && !wanted.names.is_empty() {
                return Err(Left); // it may be a wanted name
            }
            let name = scanner.bytes(&key);
            let expected = self.next[object][before];
            let place = match wanted.names.get(expected) {
                Some((known, _)) if **known == *name => Some(expected),
                _ => wanted.find(name),
            };
            if let Some(place) = place {
                self.next[object][before] = place;
                before = place + 1;
            }
            match place.map(|place| &wanted.names[place].1) {
                None => scanner.skip(depth)?,
                Some(Found::Value(column, kinds)) => {
                    let cell = &mut cells[*column];
                    if *cell != Cell::Absent {
                        return Err(Left); // a repeated key
                    }
                    *cell = value(scanner, *kinds, start)?;
                }
                Some(Found::Object(inner)) => {
                    if self.found_in[*inner] == self.payloads {
                        return Err(Left);
                    }
                    self.found_in[*inner] = self.payloads;
                    if scanner.token() == b'{' {
                        self.object(scanner, *inner, depth + 1, start, cells)?;
                    } else {
                        scanner.skip(depth)?;
                    }
                }
            }
            if !scanner.accept(b',') {
                return scanner.expect(b'}');
            }
        }
    }
}

/// Reads a value of one of these kinds, or `null`.
fn value(scanner: &mut Scanner, kinds: u8, start: u32) -> Result<Cell, Left> {
    let (cell, kind) = match scanner.token() {
        b'n' => {
            scanner.literal(b"null")?;
            return Ok(Cell::Null);
        }
        b't' => {
            scanner.literal(b"true")?;
            (Cell::Bool(true), BOOL)
        }
        b'f' => {
            scanner.literal(b"false")?;
            (Cell::Bool(false), BOOL)
        }
        b'"' => {
            let text = scanner.string()?;
            let at = |place| {
                u32::try_from(place)
                    .map(|place| start + place)
                    .map_err(|_| Left)
            };
            let kind = if text.plain { TEXT } else { 0 };
            (Cell::Text(at(text.start)?, at(text.end)?), kind)
        }
        b'-' | b'0'..=b'9' => {
            let number = scanner.number()?;
            if let Some(found) = number.integer() {
                let small = i32::try_from(found).is_ok();
                (Cell::Int(found), if small { INT64 | INT32 } else { INT64 })
            } else {
                (Cell::Float(number.float().ok_or(Left)?), FLOAT)
            }
        }
        _ => return Err(Left),
    };
    if kinds & kind == 0 {
        Err(Left)
    } else {
        Ok(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: u8 = INT64 | FLOAT | BOOL | TEXT;

    fn paths(texts: &[&str]) -> Vec<(Vec<String>, u8)> {
        let split = |text: &str| text.split('.').map(String::from).collect();
        texts.iter().map(|text| (split(text), ANY)).collect()
    }

    fn found(texts: &[&str], payload: &str) -> Result<Vec<Cell>, Left> {
        let wanted = Wanted::new(&paths(texts)).unwrap();
        let mut cells = vec![Cell::Absent; texts.len()];
        let mut search = Search::new(&wanted);
        search.payload(payload.as_bytes(), 0, &mut cells)?;
        Ok(cells)
    }

    #[test]
    fn values_are_found_wherever_they_are() {
        let wanted = ["ts", "m.t", "m.u.v", "x.y"];

        let payload = r#"{"z":[1],"m":{"a":0,"u":{"v":true},"t":null},"ts":-5,"x":[{"y":1}]}"#;
        let expected = [Cell::Int(-5), Cell::Null, Cell::Bool(true), Cell::Absent];
        assert_eq!(found(&wanted, payload).unwrap(), expected);
        assert_eq!(found(&wanted, "{}").unwrap(), [Cell::Absent; 4]);
        assert_eq!(
            found(&["a"], r#" { "a" : "xé" } "#).unwrap(),
            [Cell::Text(10, 13)]
        );
        assert_eq!(found(&[], r#"{"a":1}"#).unwrap(), []);
    }

    #[test]
    fn what_python_may_see_in_another_way_is_left() {
        for payload in [
            r#"{"ts":1,"ts":2}"#,
            r#"{"m":{},"m":{}}"#,
            r#"{"m":1,"m":{"t":1}}"#,
            r#"{"m":{"t":1,"t":1}}"#,
            r#"{"t\u0073":1}"#,
            r#"{"ts":"\n"}"#,
            r#"{"ts":{}}"#,
            r#"{"ts":[1]}"#,
            r#"{"ts":1e400}"#,
            r#"{"ts":9223372036854775808}"#,
            r#"{"ts":1}}"#,
            r#"{"ts":1"#,
            r#"{"ts":01}"#,
            r#"{"ts"}"#,
            r#"["ts"]"#,
            r#""ts""#,
            "",
        ] {
            assert_eq!(found(&["ts", "m.t"], payload), Err(Left), "{payload}");
        }
    }

    #[test]
    fn kinds_that_are_not_wanted_are_left() {
        let wanted = Wanted::new(&[(vec!["a".into()], INT32)]).unwrap();
        let mut search = Search::new(&wanted);
        let mut is_found = |payload: &str| {
            search
                .payload(payload.as_bytes(), 0, &mut [Cell::Absent])
                .is_ok()
        };

        assert!(is_found(r#"{"a":2147483647}"#));
        assert!(is_found(r#"{"a":null}"#));
        assert!(!is_found(r#"{"a":2147483648}"#));
        assert!(!is_found(r#"{"a":1.0}"#));
        assert!(!is_found(r#"{"a":"1"}"#));
        assert!(!is_found(r#"{"a":true}"#));
    }

    #[test]
    fn a_payload_does_not_change_the_next() {
        let wanted = Wanted::new(&paths(&["m.t"])).unwrap();
        let mut search = Search::new(&wanted);
        for payload in [r#"{"m":{"t":1}}"#, r#"{"m":{"t":1"#, r#"{"m":{"t":1}}"#] {
            let mut cells = [Cell::Absent];
            let is_whole = payload.ends_with('}');
            assert_eq!(
                search.payload(payload.as_bytes(), 0, &mut cells).is_ok(),
                is_whole
            );
            assert_eq!(cells, [Cell::Int(1)]);
        }
    }

    #[test]
    fn many_names_and_long_ones_are_told_apart() {
        let names: Vec<String> = (0..200)
            .map(|n| "x".repeat(n % 90) + &n.to_string())
            .collect();
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let pairs: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(n, k)| format!("\"{k}\":{n}"))
            .collect();

        let cells = found(&texts, &format!("{{{}}}", pairs.join(","))).unwrap();

        let expected: Vec<Cell> = (0..200).map(Cell::Int).collect();
        assert_eq!(cells, expected);
    }

    #[test]
    fn names_are_found_in_any_order_and_any_number() {
        for count in [1, FEW - 1, FEW, FEW + 1, 50] {
            let texts: Vec<String> = (0..count).map(|n| format!("m.name{n}")).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let wanted = Wanted::new(&paths(&texts)).unwrap();
            let mut search = Search::new(&wanted);
            // One search for all; no step has a factor in common with a count.
            for (start, step) in [
                (0, 1),
                (0, 1),
                (count - 1, count - 1),
                (3, 7),
                (3, 7),
                (0, 1),
            ] {
                let order: Vec<usize> = (0..count).map(|n| (start + n * step) % count).collect();
                let present = &order[..count.div_ceil(2)];
                let pairs = present
                    .iter()
                    .map(|n| format!("\"name{n}\":{n},\"other{n}\":0"));
                let payload = format!("{{\"m\":{{{}}}}}", pairs.collect::<Vec<_>>().join(","));
                let mut expected = vec![Cell::Absent; count];
                for n in present {
                    expected[*n] = Cell::Int(i64::try_from(*n).unwrap());
                }

                let mut cells = vec![Cell::Absent; count];
                let found = search.payload(payload.as_bytes(), 0, &mut cells);
                assert_eq!((found, cells), (Ok(()), expected), "{payload}");
            }
        }
    }

    #[test]
    fn paths_must_not_contain_each_other() {
        for texts in [
            &["a", "a.b"][..],
            &["a.b", "a"],
            &["a", "a"],
            &["a.b.c", "a.b"],
        ] {
            assert!(Wanted::new(&paths(texts)).is_none());
        }
        assert!(Wanted::new(&[(vec![], ANY)]).is_none());
        assert!(Wanted::new(&paths(&[&vec!["a"; 65].join(".")])).is_none());
        assert!(Wanted::new(&paths(&["a.b", "a.c", "b"])).is_some());
    }
}
