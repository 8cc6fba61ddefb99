use super::*;

fn accepts(payload: &[u8]) -> bool {
    let mut scanner = Scanner::new(payload);
    scanner.skip(0).is_ok() && scanner.finish().is_ok()
}

#[test]
fn json_is_accepted() {
    for payload in [
        " {} ",
        "[]",
        "[[],{},[1,2],{\"a\":[{\"b\":null}],\"c\":true}]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00é\u{1f600}\u{7f}\"",
        "[0,-0,1.5,1e5,1E+5,1.0e-5,123456789012345678901234567890,1e999999999999]",
        "\t\r\n[ true , false , null ]",
    ] {
        assert!(accepts(payload.as_bytes()), "{payload}");
    }
}

#[test]
fn what_is_not_json_is_left() {
    for payload in [
        "",
        " ",
        "{",
        "[",
        "]",
        "{]",
        "[}",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1]]",
        "{} {}",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{1:2}",
        "{\"a\" 1}",
        "tru",
        "nul",
        "truee",
        "True",
        "01",
        "-",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "0x1",
        "1.e1",
        "NaN",
        "Infinity",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\0\"",
        "\0",
        "1\0",
        "\u{feff}1",
        "\u{2060}1",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800\\n\"",
        "\"\\ud800\\",
        "\"\\ud800\\u",
        "\x0c1",
        "/**/1",
    ] {
        assert!(!accepts(payload.as_bytes()), "{payload:?}");
    }
}

#[test]
fn a_string_ends_in_any_place_of_a_word() {
    for length in 0..40 {
        let text = "x".repeat(length);
        assert!(accepts(format!("\"{text}\"").as_bytes()));
        assert!(accepts(format!("[\"{text}\\n\",\"{text}é\",0]").as_bytes()));
        assert!(!accepts(format!("\"{text}").as_bytes()));
        assert!(!accepts(format!("\"{text}\u{1}{text}\"").as_bytes()));
    }
}

#[test]
fn every_byte_in_a_string_is_judged_alone() {
    for byte in 0..=0xff_u8 {
        for before in 0..9 {
            let text = [&b"[\""[..], &b"\x7fx!#[]^ "[..before], &[byte], b"\",1]"].concat();
            let ordinary = (0x20..0x80).contains(&byte) && !matches!(byte, b'"' | b'\\');
            assert_eq!(accepts(&text), ordinary, "{byte} after {before}");
        }
    }
}

#[test]
fn text_must_be_utf8() {
    for bytes in [
        &b"\xff"[..],
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf4\x90\x80\x80",
    ] {
        assert!(!accepts(&[b"\"", bytes, b"\""].concat()));
        assert!(!accepts(&[b"{\"", bytes, b"\":1}"].concat()));
    }
}

#[test]
fn nesting_is_left_where_python_may_stop() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deepest = MAX_DEPTH as usize;
    assert!(accepts(nested(deepest + 1).as_bytes())); // the innermost is empty, so not open
    assert!(!accepts(nested(deepest + 2).as_bytes()));
    assert!(!accepts("{\"a\":".repeat(100_000).as_bytes()));
}
