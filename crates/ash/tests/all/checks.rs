//! What is accepted, and what is not: a table of small handlers.

use exos_ash::code::{Block, Expression, Handler, Reply, Statement, VariableId};
use exos_ash::{check, limits, parse};

fn of(body: Block) -> Handler {
    Handler {
        name: "h".into(),
        regions: Vec::new(),
        variables: Vec::new(),
        body,
    }
}

#[test]
fn ways_that_join_know_what_all_of_them_know() {
    let accepted = [
        "need 4; if be32(0) == 1 { need 8; } else { need 12; } x = be32(4); done;",
        "if length >= 8 { x = 1; } else { x = 2; } reply 1 { u8(0) = x; }",
        "for i in 0..4 { if i == length { break; } } done;",
        "w = &cells[0]; if *w == 1 { add(w, 1); done; } give up;",
        "w = &cells[0]; for i in 0..4 { add(w, i); } reply 0;",
        "need 8; w = &cells[0]; add(w, 1); need 4; x = be32(4); done;",
        "w = &cells[0]; for i in 0..4 { v = &cells[i]; add(v, 1); } done;",
        "need 16; w = &cells[0]; n = add(w, 1); r = &lines[n % 2]; take(r, 4, 12); v = &cells[n & 3]; *v = n; done;",
        "need 1; w = &cells[3]; add(w, 1); v = &cells[u8(0) >> 6]; add(v, 1); done;",
        "w = &cells[0]; add(w, 1); r = &wide[0]; take(r, 0, length); done;",
        "x = find(keys, 0, length); y = find(keys, x, 4); w = &cells[y & 3]; *w = x; done;",
    ];
    let refused = [
        "need 4; if be32(0) == 1 { need 8; } x = be32(4); done;",
        "w = &cells[0]; if *w == 1 { add(w, 1); } give up;",
        "w = &cells[0]; for i in 0..5 { v = &cells[i]; add(v, 1); } done;",
        "w = &cells[0]; n = add(w, 1); v = &cells[n % 5]; add(v, 1); done;",
        "need 16; w = &cells[0]; add(w, 1); r = &lines[0]; take(r, 4, 13); done;",
        "w = &cells[0]; add(w, 1); r = &lines[0]; take(r, 0, length); done;",
        "w = &cells[0]; add(w, 1); x = be32(length); done;",
        "w = &cells[0]; add(w, 1); reply length up to 8;",
        "w = &cells[0]; add(w, 1); need 4; done;",
        "for i in 0..4 { x = 1; break; } for j in 0..4 { if j == 1 { break; } y = 1; } reply 1 { u8(0) = y; }",
        "for i in 0..4 { } x = i; done;",
        "for i in 0..0 { } done;",
        "x = 1; x = &cells[0]; done;",
        "w = &cells[0]; x = w; done;",
        "r = &lines[0]; x = *r; done;",
        "r = &lines[0]; add(r, 1); done;",
        "w = &cells[0]; take(w, 0, 1); done;",
        "reply 1401;",
        "need 1473; done;",
        "r = &lines[0]; reply 100 { row(0, r, 17); }",
        "w = &cells[0]; add(w, 1); x = find(keys, 0, 4); done;",
        "for i in 0..2 { x = find(keys, 0, 4); } done;",
        "x = find(cells, 0, 4); done;",
        "k = &keys[0]; done;",
        "if 1 == 2 { x = find(keys, 0, 4); } reply x up to 4;",
    ];
    let whole = |body| {
        format!(
            "handler h {{ words cells[4]; rows lines[2] of 16; rows wide[1] of 1472; table keys[8] of 16; {body} }}"
        )
    };
    for body in accepted {
        parse(&whole(body)).unwrap_or_else(|e| panic!("{e}: {body}"));
    }
    for body in refused {
        assert!(parse(&whole(body)).is_err(), "{body}");
    }
}

#[test]
fn steps_are_counted_before_they_are_taken() {
    let loops = "for i in 0..256 { for j in 0..256 { } } done;";
    let error = parse(&format!("handler h {{ {loops} }}"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("a message may take"), "{error}");
    for nesting in [3, 8, 12, 15] {
        let loops: String = (0..nesting)
            .map(|n| format!("for i{n} in 0..256 {{ "))
            .collect();
        let text = format!("handler h {{ {loops} {} done; }}", "}".repeat(nesting));
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains("a message may take"), "{nesting}: {error}");
    }
}

/// Steps are nanoseconds, as far as one machine tells: what takes long may not count as if it were an operation.
#[test]
fn a_step_is_as_long_whatever_it_is_of() {
    let steps = |regions: &str, body: &str| {
        let text = format!("handler h {{ {regions} need 8; x = be64(0); {body} done; }}");
        parse(&text)
            .unwrap_or_else(|e| panic!("{e}: {text}"))
            .steps()
    };
    let hundred = |body: &str| body.repeat(100);
    let nothing = steps("", "");
    assert_eq!(nothing, 1);
    assert_eq!(steps("", &hundred("y = x + 1;")) - nothing, 40);
    assert_eq!(steps("", &hundred("y = x / 3;")) - nothing, 370);
    assert_eq!(steps("", "for i in 0..100 { y = x % i; }") - nothing, 410);
    let place = |regions: &str, body: &str, often: &str| {
        let begin = "p = &w[x]; q = &r[x]; ";
        let regions = format!("words w[4]; rows r[4] of 1400; {regions}");
        steps(&regions, &format!("{begin} {body} {}", hundred(often))) - steps(&regions, begin)
    };
    assert_eq!(place("", "", "add(p, 1);"), 480);
    let (far, farther) = ("words o[30000]; words f[60000];", "words f[1000000];");
    assert_eq!(place("words f[60000];", "", "s = &f[x];"), 60);
    assert_eq!(place(far, "", "s = &f[x];"), 1160);
    assert_eq!(place(farther, "", "s = &f[x];"), 13_060);
    assert_eq!(place(farther, "", "s = &f[7];"), 13_060);
    assert_eq!(place(farther, "", "s = &w[x];"), 60);
    // By a call, and word by word.
    assert_eq!(place("", "need 1400;", "take(q, 0, 1400);"), 4_780);
    assert_eq!(place("", "need 64;", "take(q, 0, 64);"), 270);
    // Of 7 bytes three words: as of 24.
    assert_eq!(place("", "need 64;", "take(q, 0, 24);"), 120);
    assert_eq!(place("", "need 64;", "take(q, 0, 7);"), 120);
    let reply = |length: &str, at: u32| {
        let text = format!("handler h {{ need 8; reply {length} {{ be32({at}) = 1; }} }}");
        parse(&text).unwrap().steps()
    };
    // As long as the message, with a sum that follows; with one that is made again; and in a packet that has to be moved, which takes
    // 21 times two calls.
    let made = reply("1400", 0) - 21 * 60;
    assert_eq!((reply("length", 0), made), (11, 106));
    assert_eq!(reply("length", 3), 110);
}

#[test]
fn a_tree_from_anywhere_is_judged_without_a_panic() {
    let wild = VariableId(200);
    let number = Expression::Variable(wild);
    let bodies = [
        vec![Statement::Set(wild, Expression::Length), Statement::Done],
        vec![Statement::Point(wild, Expression::Length), Statement::Done],
        vec![Statement::Repeat(wild, 3, Vec::new()), Statement::Done],
        vec![Statement::Reply(Reply {
            length: number,
            most: 4,
            parts: Vec::new(),
        })],
        vec![Statement::Break],
        Vec::new(),
    ];
    for body in bodies {
        check(of(body)).unwrap_err();
    }
    let mut deep = vec![Statement::Done];
    for _ in 0..limits::NESTING_MAX + 1 {
        let condition = exos_ash::code::Condition::Compare(
            exos_ash::code::Comparison::Equal,
            Expression::Length,
            Expression::Length,
        );
        deep = vec![Statement::If(condition, deep, vec![Statement::Done])];
    }
    check(of(deep)).unwrap_err();
}

#[test]
fn a_handler_is_no_longer_than_the_kernels_jumps() {
    let long = |times| {
        format!(
            "handler h {{ x = 0; {} done; }}",
            "x = u8(x); ".repeat(times)
        )
    };
    let error = parse(&long(2500)).unwrap_err().to_string();
    assert!(error.contains("instructions; 24000 are allowed"), "{error}");
    parse(&long(1000)).unwrap();
}

#[test]
fn checking_takes_no_longer_for_repetitions_within_one_another() {
    let loops: String = (0..14).map(|n| format!("for i{n} in 0..1 {{ ")).collect();
    let body = "add(w, 1); ".repeat(800);
    let text = format!(
        "handler h {{ words c[1]; w = &c[0]; {loops} {body} {} done; }}",
        "}".repeat(14)
    );
    // Followed twice for each repetition around it, the body would be followed 16,384 times.
    parse(&text).unwrap();
}
