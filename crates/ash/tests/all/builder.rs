//! What is built is what the text says.

use exos_ash::builder::{Builder, Word as _};
use exos_ash::code::{BE32, BE64, Change, Condition, Expression, U8};
use exos_ash::{CheckError, Checked, parse};

use crate::layers;

/// The text's handler and the one that was built are one tree.
fn are_one(text: &str, built: Builder) {
    let (text, built) = (parse(text).unwrap(), built.check().unwrap());
    assert_eq!(text.handler().to_string(), built.handler().to_string());
    assert_eq!(text, built);
}

#[test]
fn every_statement_is_that_of_the_text() {
    let mut h = Builder::new("all");
    let locks = h.words("locks", 8);
    let lines = h.rows("lines", 64, 32);
    let names = h.table("names", 64, 32);
    h.need(2);
    let first = h.number(U8, 0).equals(0);
    h.when_else(
        first.or(h.number(U8, 0).at_most(1).and(h.length().differs_from(2))),
        |h| {
            h.need(16);
            let lock = h.place("lock", locks, h.number(U8, 1));
            let swap = Change::CompareSwap(0.into(), h.number(BE64, 4));
            let before = h.change_from("before", lock, swap);
            h.change(lock, Change::Add(lock.word()));
            h.reply(8, [h.put(BE64, 0, before)]);
        },
        |h| {
            let sum = h.begin("sum", 0);
            h.repeat("i", 4, |h, i| {
                let line = h.row("line", lines, (h.number(U8, 1) * 4 + i) % 64);
                h.take(line, Expression::from(i) * 32 + 4, 32);
                h.set(sum, sum + h.number(BE32, i << 2));
                h.when(sum.more_than(100), |h| h.leave());
            });
            let word = h.find("word", names, 1, h.length() - 1);
            h.when(word.less_than(5), |h| h.give_up());
            h.when(word.at_least(500), |h| h.done());
            let row = h.row("r", lines, word >> 16 & 63);
            let parts = [h.put(BE32, 0, sum), h.put_row(4, row, word & 31)];
            h.reply_up_to((word & 31) + 4, 36, parts);
        },
    );
    are_one(
        "handler all {
            words locks[8];
            rows lines[64] of 32;
            table names[64] of 32;

            need 2;
            if u8(0) == 0 || u8(0) <= 1 && length != 2 {
                need 16;
                lock = &locks[u8(1)];
                before = compare_swap(lock, 0, be64(4));
                add(lock, *lock);
                reply 8 { be64(0) = before; }
            } else {
                sum = 0;
                for i in 0..4 {
                    line = &lines[(u8(1) * 4 + i) % 64];
                    take(line, i * 32 + 4, 32);
                    sum = sum + be32(i << 2);
                    if sum > 100 { break; }
                }
                word = find(names, 1, length - 1);
                if word < 5 { give up; }
                if word >= 500 { done; }
                r = &lines[word >> 16 & 63];
                reply (word & 31) + 4 up to 36 { be32(0) = sum; row(4, r, word & 31); }
            }
        }",
        h,
    );
}

#[test]
fn layers_are_those_of_the_text() {
    let mut h = Builder::new("server");
    h.layer("session", 8, |h| {
        let sequence = h.words("sequence", 16);
        let expected = h.place("expected", sequence, h.number(BE32, 0));
        let next = h.number(BE32, 4).differs_from(expected.word());
        h.when(next, |h| h.give_up());
        h.commit(|h| h.change(expected, Change::Add(1.into())));
        h.header([h.put(BE32, 4, expected.word())]);
    });
    let mut method = None;
    h.layer("rpc", 6, |h| {
        h.when(h.number(U8, 0).differs_from(1), |h| h.give_up());
        method = Some(h.begin("method", h.number(U8, 1)));
        h.header([h.put(U8, 0, 0x81)]);
    });
    let method = method.unwrap();
    let counters = h.words("counters", 4);
    h.when(method.equals(1), |h| {
        h.need(12);
        let counter = h.place("counter", counters, h.number(BE32, 0));
        let before = h.change_from("before", counter, Change::Add(h.number(BE64, 4)));
        h.reply(12, [h.put(BE64, 4, before)]);
    });
    h.need(8);
    h.when(method.equals(2).and(h.length().equals(8)), |h| {
        let turned = [
            h.put(BE32, 0, h.number(BE32, 4)),
            h.put(BE32, 4, h.number(BE32, 0)),
        ];
        h.reply(h.length(), turned);
    });
    h.give_up();
    are_one(&layers::server(), h);
}

/// What begins in a layer is its own, also where another is called so before.
#[test]
fn names_of_a_layer_are_its_own() {
    let mut h = Builder::new("h");
    let before = h.begin("x", 1);
    h.layer("l", 4, |h| _ = h.begin("x", before + 1));
    h.done();
    let built = h.check().unwrap();
    let names = built.handler().variables.iter().map(|v| v.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["x", "l_x"]);
}

#[test]
fn what_a_layer_must_not_is_said() {
    let built = |build: &dyn Fn(&mut Builder)| {
        let mut h = Builder::new("h");
        build(&mut h);
        h.done();
        h.check().unwrap_err().to_string()
    };
    let in_layer = |build: &dyn Fn(&mut Builder)| built(&|h| h.layer("a", 4, |h| build(h)));
    let wrong = [
        (built(&|h| h.commit(|_| ())), "a commit is a layer's"),
        (built(&|h| h.header([h.put(U8, 0, 1)])), "here is none"),
        (
            in_layer(&|h| h.when(h.length().equals(0), |h| h.header([h.put(U8, 1, 9)]))),
            "no block of it",
        ),
        (built(&|h| h.reply(h.length() & 7, [])), "reply_up_to"),
        (in_layer(&|h| h.layer("b", 4, |_| ())), "behind another"),
        (
            built(&|h| h.when(h.length().equals(0), |h| h.layer("b", 4, |_| ()))),
            "behind another",
        ),
        (in_layer(&|h| h.commit(|h| h.done())), "ends no message"),
        (
            in_layer(&|h| h.commit(|h| _ = h.begin("x", 1))),
            "begins before it",
        ),
        (
            in_layer(&|h| h.header([h.put(BE32, 1, 1)])),
            "numbers within it",
        ),
    ];
    for (said, part) in wrong {
        assert!(said.contains(part), "{said}");
    }
}

/// As many `||` as this, in a tree as deep as can be or as flat as can be.
fn with_links(links: usize, is_deep: bool) -> Result<Checked, CheckError> {
    fn flat(links: usize) -> Condition {
        let one = Expression::Length.equals(1);
        match links {
            0 => one,
            _ => flat((links - 1) / 2).or(flat(links / 2)),
        }
    }
    let mut h = Builder::new("h");
    let condition = match is_deep {
        true => (0..links).fold(flat(0), |all, _| all.or(flat(0))),
        false => flat(links),
    };
    h.when(condition, |h| h.done());
    h.give_up();
    h.check()
}

/// What is accepted is written as text, to be downloaded without privilege, and is accepted as that.
#[test]
fn what_is_built_can_be_read_again() {
    for is_deep in [true, false] {
        let handler = with_links(32, is_deep).unwrap();
        let again = parse(&handler.handler().to_string()).unwrap();
        assert_eq!(again.steps(), handler.steps());
        let said = with_links(33, is_deep).unwrap_err().to_string();
        assert!(said.contains("too long"), "{said}");
    }
    let mut h = Builder::new("long");
    for n in 0..24 {
        h.begin(&format!("{}{n}", "x".repeat(4000)), n);
    }
    h.done();
    let said = h.check().unwrap_err().to_string();
    assert!(said.contains("bytes of text; 65536 are allowed"), "{said}");
}
