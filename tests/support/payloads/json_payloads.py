"""JSON values, right and wrong in every way that the grammar knows, and payloads that hold them."""

from collections.abc import Iterator

NUMBERS = (
    *(b"0", b"-0", b"1", b"-1", b"12", b"0.0", b"-0.0", b"1.5", b"-2.25", b"1e0", b"1E5", b"1e+5"),
    *(b"1.5e-3", b"0e1", b"0e+1", b"1e22", b"1e23", b"1e-22", b"1e-23", b"1e308", b"1e309"),
    *(b"-1e400", b"1e-400", b"1e0000000000001", b"1e-99999999999999999999", b"0e99999999999999"),
    *(b"9007199254740991.0", b"9007199254740993.0", b"0.1234567890123456789", b"4.35", b"1.10"),
    *(b"2147483647", b"2147483648", b"-2147483648", b"-2147483649", b"1763683200000000000"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808"),
    *(b"-9223372036854775809", b"18446744073709551615", b"18446744073709551616"),
    *(b"9" * 19, b"1" + b"0" * 19, b"1" * 100, b"-" + b"7" * 400, b"0." + b"0" * 40 + b"1"),
)
"""Numbers of every size."""
WRONG_NUMBERS = (
    *(b"01", b"-01", b"00", b"-", b"--1", b"+1", b"1.", b"-2.", b".5", b"1..2", b"0.1.2", b"1e"),
    *(b"1e+", b"1e-", b"1.0e", b"1eE2", b"1.e1", b".e1", b"1 000", b"1_000", b"0x1", b"1a", b"- 1"),
    *(b"NaN", b"-NaN", b"nan", b"Infinity", b"-Infinity", b"Inf", b"1e1.5", b"1-1", b"1+2"),
    *("\uff11".encode(), b"1\xe5", b"1e\xe5", b"0e\x00", b"1\x00", b"-\xff"),
)
STRINGS = (
    *(b'""', b'"a"', b'"7"', b'"2025-11-21T00:00:00Z"', '"é"'.encode(), '"\U0001f600"'.encode()),
    *(b'"\x7f"', b'"/"', b'"\\""', b'"\\\\"', b'"\\/"', b'"\\b\\f\\n\\r\\t"', b'"\\u0041"'),
    *(b'"\\u0000"', b'"\\u00E9\\u00e9"', b'"\\ud83d\\ude00"', b'"\\uD834\\uDd1E"', b'"\\uffff"'),
    *(
        b'"\\\\u0000"',
        b'"\\\\n"',
        b'"[{,:}]"',
        b'"' + b"x" * 1000 + b'"',
        '"\u2028\ufeff"'.encode(),
    ),
)
WRONG_STRINGS = (
    *(b'"', b'"a', b'"\\', b'"\\"', b'"\\x"', b'"\\U0041"', b'"\\u"', b'"\\u004"', b'"\\u00g1"'),
    *(b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\u0041"', b'"\\ud800\\n"', b'"\\ud800\\"'),
    *(b'"\\ud800\\u"', b'"\\ud800\\ud800"', b'"\\udc00\\ud800"', b'"\\u-123"', b'"\\u+123"'),
    *(b'"\n"', b'"\t"', b'"\x00"', b'"\x1f"', b'"\\\x00"', b"'a'", b"a", b'\\"a"', b'"a""b"'),
    *(b'"\xff"', b'"\xc3"', b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\x80"'),
    *(b'"\xe9"', b'"\\u00\xe5"', b'"\\\xe5"', b'"\xfc\x80\x80\x80\x80\x80"', b"\xe9", b"\\u0022"),
)
OTHERS = (
    *(b"true", b"false", b"null", b"[]", b"{}", b"[1]", b"[[],{}]", b'[null,1,"1",{}]', b"[ ]"),
    *(b"{ }", b'{"t":1}', b'{"t":{"v":2}}', b'{"t":"x","t":2}', b'{"u":{"v":3},"u":{}}', b'{"":0}'),
    *(b'{"u":{"v":3},"u":4}', b'{"a":1,"a":{"a":[2]}}', b'{"\\u0074":1}', b'{"t" : 1 , "x":[ 2 ]}'),
    *(b'{"t":1,"\xc3\xa9":2}', b"\r\n\t [ 1 ,\n2 ] ", b'[{"a":[{"b":[]}]}]', b"[" * 30 + b"]" * 30),
)
WRONG_OTHERS = (
    *(b"", b" ", b"tru", b"nul", b"fals", b"True", b"TRUE", b"truex", b"nulll", b"t", b"n", b"*"),
    *(
        b"[",
        b"]",
        b"{",
        b"}",
        b"[}",
        b"{]",
        b"[1,]",
        b"[,1]",
        b"[,]",
        b"[1,,2]",
        b"[1 2]",
        b"[1;2]",
    ),
    *(
        b"[1:2]",
        b"[1",
        b"[1,",
        b"[1]]",
        b'["a',
        b"[{}",
        b"[[]",
        b"[\x0b]",
        b"[\x0c1]",
        b"{,}",
        b"{1:2}",
    ),
    *(b'{"a"}', b'{"a":}', b'{"a":1', b'{"a":1,', b'{"a":1,}', b'{"a":1,,"b":2}', b'{"a" 1}'),
    *(
        b'{"a"::1}',
        b'{"a",1}',
        b"{a:1}",
        b"{'a':1}",
        b'{"a":1 "b":2}',
        b'{"a":1;"b":2}',
        b'{"a":1}}',
    ),
    *(
        b'{"a":1}/**/',
        b'{"a":1}//',
        b"/**/1",
        b"#1",
        b"1 1",
        b"1,",
        b"{}{}",
        b"[] x",
        b"{[:1}",
        b"<1>",
    ),
    *(
        b'{"\xff":1}',
        b'{"\\ud800":1}',
        b'{"\\x":1}',
        b'{"a\n":1}',
        b"\xef\xbb\xbf1",
        "\u2060".encode(),
    ),
    *(b"\x00", b"[\x00]", b"{\x00}", b"[" * 20_000, b'{"a":' * 20_000, b"[" * 5000 + b"]" * 5000),
)
DEEP = tuple(
    opened * depth + b"1" + closed * depth
    for depth in (60, 61, 62, 63, 64, 65, 66, 300)
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"t":', b"}]"))
)
"""Around the depth where the extension stops, and beyond."""
VALUES = (
    *(*NUMBERS, *WRONG_NUMBERS, *STRINGS, *WRONG_STRINGS, *OTHERS, *WRONG_OTHERS),
    *DEEP,
)


def payloads_with(value: bytes) -> Iterator[bytes]:
    """Payloads with the value alone, where it is wanted, and where it is not."""
    yield value
    for name in (b"a", b"b", b"m", b"zz"):
        yield b'{"%b":%b}' % (name, value)
    yield b'{"a":1,"zz":%b,"m":{"t":2}}' % value
    yield b'{"m":{"t":%b,"u":{"v":7}},"a":2}' % value
    yield b'{"m":{"zz":[0,{"t":%b}],"u":%b}}' % (value, value)
    yield b' {\n"a" : %b , "b":[%b,%b]}\r\n' % (value, value, value)
    yield b'{"a":%b,"a":1}' % value
    yield b'{"m":%b,"m":{"t":1}}' % value
    yield b"{%b:1}" % value
    yield b'{"a":1}%b' % value
    yield b'%b{"a":1}' % value
