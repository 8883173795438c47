//! Layers: what is joined of them is the handler that one would write by hand, and runs as it should in the kernel and in the interpreter.

use std::sync::atomic::Ordering::Relaxed;

use exos_ash::{Layout, Memory, Outcome, interpret, parse};
use exos_testing::Random;

use crate::packets::{Bench, allowed};
use crate::words;

const SESSION: &str = include_str!("../../examples/layers/session.layer");
const RPC: &str = include_str!("../../examples/layers/rpc.layer");

/// Method 1 adds to a counter, method 2 turns the message round.
const OPERATION: &str = "
    words counters[4];

    if rpc_method == 1 {
        need 12;
        counter = &counters[be32(0)];
        before = add(counter, be64(4));
        reply 12 { be64(4) = before; }
    }
    need 8;
    if rpc_method == 2 && length == 8 {
        reply length { be32(0) = be32(4); be32(4) = be32(0); }
    }
    give up;";

const BY_HAND: &str = "
    handler server {
        words session_sequence[16];
        words counters[4];

        need 8;
        session_expected = &session_sequence[be32(0)];
        if be32(4) != *session_expected { give up; }
        need 14;
        if u8(8) != 1 { give up; }
        rpc_method = u8(9);
        if rpc_method == 1 {
            need 26;
            counter = &counters[be32(14)];
            before = add(counter, be64(18));
            add(session_expected, 1);
            reply 26 { be32(4) = *session_expected; u8(8) = 0x81; be64(18) = before; }
        }
        need 22;
        if rpc_method == 2 && length - 14 == 8 {
            add(session_expected, 1);
            reply length {
                be32(4) = *session_expected; u8(8) = 0x81;
                be32(14) = be32(18); be32(18) = be32(14);
            }
        }
        give up;
    }";

pub fn server() -> String {
    format!("handler server {{ {SESSION} {RPC} {OPERATION} }}")
}

#[test]
fn joined_layers_are_the_handler_written_by_hand() {
    let written = |text: &str| parse(text).unwrap().handler().to_string();
    assert_eq!(written(&server()), written(BY_HAND));
}

fn message(session: u32, sequence: u32, [version, method]: [u8; 2], operation: &[u8]) -> Vec<u8> {
    let (session, sequence) = (session.to_be_bytes(), sequence.to_be_bytes());
    let call = [version, method, 0, 0, 0, 7];
    [&session[..], &sequence, &call, operation].concat()
}

/// A call that is not the next of its session, or that no layer above knows, changes nothing.
#[test]
fn a_session_goes_on_with_what_was_answered() {
    let handler = parse(&server()).unwrap();
    let layout = Layout::of(handler.handler());
    let words = words(&layout);
    let memory = Memory::new(&words, &layout, handler.handler());
    let run = |message: Vec<u8>| interpret(&handler, memory, &message);
    let add = |by: u8| [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, by];
    let answer = message(3, 1, [0x81, 1], &add(0));
    assert_eq!(run(message(3, 0, [1, 1], &add(5))), Outcome::Reply(answer));
    let unknown = [
        message(3, 0, [1, 1], &add(5)),
        message(16, 0, [1, 1], &add(5)),
        message(3, 1, [2, 1], &add(5)),
        message(3, 1, [1, 3], &add(5)),
        message(3, 1, [1, 1], &add(5)[..11]),
        message(3, 1, [1, 1], &[0xff; 12]),
        message(3, 1, [1, 2], &add(5)),
        vec![0; 13],
    ];
    for message in unknown {
        assert_eq!(run(message.clone()), Outcome::GivenUp, "{message:?}");
    }
    let turned = message(3, 2, [0x81, 2], &[5, 6, 7, 8, 1, 2, 3, 4]);
    let asked = message(3, 1, [1, 2], &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(run(asked), Outcome::Reply(turned));
    let sequence = memory.words("session_sequence").unwrap();
    assert_eq!(sequence[3].load(Relaxed), 2);
    assert_eq!(memory.words("counters").unwrap()[2].load(Relaxed), 5);
}

#[test]
fn the_kernel_runs_three_layers_as_the_interpreter() {
    if !allowed("the_kernel_runs_three_layers_as_the_interpreter") {
        return;
    }
    let handler = parse(&server()).unwrap();
    let layout = Layout::of(handler.handler());
    let bench = Bench::new(&handler, false);
    let words = words(&layout);
    let memory = Memory::new(&words, &layout, handler.handler());
    let (mut random, mut replies) = (Random(31), 0);
    for _ in 0..3000 {
        let session = random.below(17) as u32;
        let known = memory.words("session_sequence").unwrap();
        let next = known
            .get(session as usize)
            .map_or(0, |word| word.load(Relaxed));
        let sequence = next as u32 + u32::from(random.one_in(4));
        let len = random.pick(&[7, 8, 9, 11, 12, 20]);
        let mut operation = random.bytes(len);
        operation[..3].fill(0);
        operation[3] %= 5;
        let call = [1 + u8::from(random.one_in(8)), random.below(4) as u8];
        let message = message(session, sequence, call, &operation);
        let expected = interpret(&handler, memory, &message);
        replies += u32::from(matches!(expected, Outcome::Reply(_)));
        assert_eq!(
            bench.outcome(random.one_in(2), &message),
            expected,
            "{message:?}"
        );
    }
    assert!(replies > 100, "{replies}");
}

/// What is written of layers, without them, is the handler that was read of them.
#[test]
fn what_is_written_of_layers_is_read_as_they_were() {
    let of_corpus = include_bytes!("../../../../fuzz/corpus/ash_handler/layers");
    let text = of_corpus.split(|&byte| byte == 0).next().unwrap();
    for text in [std::str::from_utf8(text).unwrap(), &server()] {
        let handler = parse(text).unwrap();
        let again = parse(&handler.handler().to_string()).unwrap();
        assert_eq!(again, handler);
    }
}

#[test]
fn errors_of_layers_say_where() {
    let cases = [
        (
            "handler h { layer a_b 4 { } done; }",
            "line 1, column 19: a layer's name has no `_`",
        ),
        (
            "handler h { layer a 4 { reply { be32(1) = 0; } } done; }",
            "line 1, column 33: a header in a reply is made of numbers within it",
        ),
        (
            "handler h { layer a 4 { x = be32(4); } done; }",
            "line 1, column 25: the message may be shorter; say `need 8;` before",
        ),
        (
            "handler h { layer a 2000 { } done; }",
            "line 1, column 19: no message has more than 1472 bytes",
        ),
        (
            "handler h { layer a 4 { x = 1; } y = x; done; }",
            "line 1, column 38: there is no variable x before",
        ),
        (
            "handler h { layer a 4 { words w[2]; p = &w[0]; commit { x = add(p, 1); } } done; }",
            "line 1, column 57: x begins before `commit`; say `x = 0;` there",
        ),
        (
            "handler h { layer a 0 { commit { if length == 0 { done; } } } done; }",
            "line 1, column 51: a commit ends no message; have it be done before",
        ),
        // What may fail stands before what layers below do.
        (
            "handler h { layer a 4 { words w[2]; p = &w[0]; commit { add(p, 1); } }\n need 1; reply u8(0) up to 9; }",
            "line 2, column 10: a reply of a length that is computed may give the message up, and memory has been changed before; do it before the first change",
        ),
    ];
    for (text, expected) in cases {
        let error = parse(text).unwrap_err().to_string();
        assert_eq!(error, expected, "{text}");
    }
}

/// Each verdict has what layers below do: that is bounded, whatever the text.
#[test]
fn layers_do_not_make_a_short_text_long() {
    let commit = "add(p, 1);".repeat(2000);
    let verdicts = "if length > 0 { done; } ".repeat(1500);
    let text = format!(
        "handler h {{ layer a 1 {{ words w[1]; p = &w[0]; commit {{ {commit} }} }} {verdicts} }}"
    );
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.contains("before each verdict"), "{error}");
}
