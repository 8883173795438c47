//! Handlers as text: what is written is read again as what it was, and what is wrong is told with its place.

use exos_ash::parse;
use exos_testing::Random;

use crate::draw;

#[test]
fn what_is_written_is_read_again() {
    let mut random = Random(7);
    for _ in 0..500 {
        let handler = draw::handler(&mut random);
        let text = handler.handler().to_string();
        let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        // Variables are numbered as they come, and those without a use are not written.
        assert_eq!(again.handler().to_string(), text);
        assert_eq!(
            (again.steps(), again.longest_reply()),
            (handler.steps(), handler.longest_reply())
        );
    }
}

#[test]
fn operators_bind_as_usual() {
    let text = "handler h { x = 1 + 2 * 3 << 1 & 7 | 8 ^ 9; if x == 1 && x < 2 || (x > 3) { done; } give up; }";
    let written = parse(text).unwrap().handler().to_string();
    assert!(
        written.contains("x = ((((1 + (2 * 3)) << 1) & 7) | (8 ^ 9));"),
        "{written}"
    );
    assert!(
        written.contains("if ((x == 1) && (x < 2)) || (x > 3) {"),
        "{written}"
    );
}

#[test]
fn errors_say_where_and_what_to_do() {
    let cases = [
        ("", "line 1, column 1: `handler` is expected here"),
        (
            "handler h { need 4 }",
            "line 1, column 20: `;` is expected here",
        ),
        (
            "handler h {\n  x = be32(0);\n  done;\n}",
            "line 2, column 3: the message may be shorter; say `need 4;` before",
        ),
        ("handler h { done;", "line 1, column 18: `}` is missing"),
        (
            "handler h { done; give up; }",
            "line 1, column 19: nothing leads here; take it out",
        ),
        (
            "handler h { need 4; }",
            "line 1, column 1: a way through the handler ends without a verdict; end it with `give up`, `done` or `reply`",
        ),
        (
            "handler h { words w[2]; w = &w[0]; add(w, 1); give up; }",
            "line 1, column 47: `give up` may give the message up, and memory has been changed before; do it before the first change",
        ),
        (
            "handler h { x = y; }",
            "line 1, column 17: there is no variable y before",
        ),
        (
            "handler h { if length > 4 { x = 1; } reply 1 { u8(0) = x; } }",
            "line 1, column 38: x has no value on every way here",
        ),
        (
            "handler h { reply length + 1; }",
            "line 1, column 29: a length that is computed has a limit: `up to 100`",
        ),
        (
            "handler h { reply 4 { be64(0) = 1; } }",
            "line 1, column 13: the reply has no byte 7",
        ),
        (
            "handler h { break; }",
            "line 1, column 13: `break` leaves a repetition, and there is none",
        ),
        (
            "handler h { need = 1; }",
            "line 1, column 18: a number is expected here: how many bytes",
        ),
        (
            "handler h { x = 99999999999999999999; }",
            "line 1, column 17: 99999999999999999999 is no number of 64 bits",
        ),
        (
            "handler h { rows r[2] of 12; done; }",
            "line 1, column 1: a row of r has a multiple of 8 bytes",
        ),
        (
            "handler h { table t[12] of 8; done; }",
            "line 1, column 1: t has a power of two of slots, 8 at least",
        ),
        (
            "handler h { table t[8] of 20; done; }",
            "line 1, column 1: a key of t has a multiple of 8 bytes, 256 at most",
        ),
        (
            "handler h { for i in 0..9 { i = 4; } done; }",
            "line 1, column 29: i counts a repetition here",
        ),
        (
            "handler h { # }",
            "line 1, column 13: '#' means nothing here",
        ),
    ];
    for (text, expected) in cases {
        let error = parse(text).unwrap_err().to_string();
        assert_eq!(error, expected, "{text}");
    }
}

#[test]
fn text_of_any_kind_is_read_to_an_end() {
    let deep = format!(
        "handler h {{ x = {}1{}; done; }}",
        "(".repeat(5000),
        ")".repeat(5000)
    );
    let long = format!("handler h {{ x = 1{}; done; }}", " + 1".repeat(10_000));
    let blocks = format!("handler h {{ {} }}", "if 1 == 1 {".repeat(5000));
    let large = "x".repeat(100_000);
    for text in [deep, long, blocks, large] {
        parse(&text).unwrap_err();
    }
    let pieces = [
        "handler", "layer", "commit", "h", "{", "}", "(", ")", "[", "]", "words", "rows", "table",
        "find", "w", "of", "8", "need", "=", "&", "*", "x", ";", "if", "else", "for", "in", "0",
        "..", "reply", "up", "to", "be32", "length", "add", ",", "give", "done", "//", "\n", "é",
    ];
    let mut random = Random(11);
    for _ in 0..20_000 {
        let count = random.below(30);
        let text: Vec<_> = (0..count)
            .map(|_| pieces[random.below(pieces.len())])
            .collect();
        let _ = parse(&format!("handler h {{ words w[2]; {}", text.join(" ")));
    }
}

/// What is accepted is written again with a parenthesis for each operator, and read with them.
#[test]
fn a_condition_is_bounded_as_a_whole() {
    let within = |inner: &str, sign: &str| {
        let row = format!(" {sign} 1 == 1").repeat(31);
        format!("({inner}{row})")
    };
    let read = |condition: &str| {
        parse(&format!(
            "handler h {{ if {condition} {{ done; }} give up; }}"
        ))
    };
    let most = within("1 == 1 || 1 == 1", "&&");
    let written = read(&most).unwrap().handler().to_string();
    assert_eq!(parse(&written).unwrap().handler().to_string(), written);
    let more = within("1 == 1 || 1 == 1 || 1 == 1", "&&");
    let refused = read(&more).unwrap_err().to_string();
    assert!(refused.contains("too long"), "{refused}");
    // As deep as parentheses may be, each with as long a row as 64 KiB of text have room for.
    let rows = "(".repeat(40) + "1 == 1" + &(" && 1 == 1".repeat(64) + ")").repeat(40);
    assert!(read(&rows).is_err());
    let words = "(".repeat(60) + "1" + &("+1".repeat(400) + ")").repeat(60);
    assert!(read(&format!("{words} == 1")).is_err());
}
