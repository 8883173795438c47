//! What the fuzz targets of `exos-ash` check of any bytes.
//!
//! Each function takes the fuzzer's bytes and panics when something does not hold. The file is included by the fuzz
//! targets and by `crates/ash/tests/all/corpus.rs`, which replays the corpora with a stable compiler.

use std::sync::atomic::AtomicU64;

use exos_ash::kernel::InKernel;
use exos_ash::limits::MESSAGE_MAX;
use exos_ash::{Checked, Layout, Memory, Outcome, Verdict, interpret, parse};
use exos_filter::handler::Handler as _;
use exos_filter::handler::forward::WayOut;

/// A text, and behind a zero byte a message: the text is refused with a place in it, or is a handler that is printed and read again as what
/// it was, becomes a program, and deals with the message within its bounds, as machine code as by the interpreter.
pub fn handler(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let text = parts.next().unwrap_or_default();
    let message = parts.next().unwrap_or_default();
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let handler = match parse(text) {
        Ok(handler) => handler,
        Err(error) => {
            assert!(
                error.line >= 1 && error.line <= text.lines().count().max(1),
                "{error}"
            );
            assert!(error.column >= 1, "{error}");
            return;
        }
    };
    let printed = handler.handler().to_string();
    if printed.len() <= exos_ash::limits::TEXT_MAX {
        match parse(&printed) {
            Ok(again) => assert_eq!(again, handler, "{printed}"),
            Err(error) => panic!("{error}\n{printed}"),
        }
    }
    program(&handler);
    run(&handler, message);
}

fn program(handler: &Checked) {
    let in_kernel = InKernel {
        handler,
        memory_fd: 0,
        mac: exos_wire::Mac([2, 0, 0, 0, 0, 1]),
        addresses: vec!["192.0.2.7".parse().expect("an address")],
        port: 7,
        not_from: Vec::new(),
        may_be_partial: true,
        way_out: WayOut::Transmit,
    };
    assert!(!in_kernel.program(0, 0).words().is_empty());
}

fn run(handler: &Checked, message: &[u8]) {
    let layout = Layout::of(handler.handler());
    if layout.bytes() > 1 << 20 {
        return;
    }
    let words = || -> Vec<AtomicU64> {
        let all = 0..layout.bytes() / 8;
        all.map(|_| AtomicU64::new(0)).collect()
    };
    let both = [words(), words()];
    let [ours, theirs] = both
        .each_ref()
        .map(|words| Memory::new(words, &layout, handler.handler()));
    let meant = interpret(handler, ours, message);
    if let Outcome::Reply(reply) = &meant {
        let longest = handler.longest_reply().expect("it replies");
        assert!(reply.len() <= usize::from(longest));
    }
    let Ok(native) = handler.compile() else {
        return;
    };
    let mut reply = [0xa5; MESSAGE_MAX as usize];
    let done = match native.run(theirs, message, &mut reply) {
        Verdict::GivenUp => Outcome::GivenUp,
        Verdict::Done => Outcome::Done,
        Verdict::Reply(bytes) => Outcome::Reply(reply[..bytes].to_vec()),
    };
    assert_eq!(done, meant, "{}", handler.handler());
    let [ours, theirs] = both.map(|words| words.into_iter().map(AtomicU64::into_inner));
    assert!(ours.eq(theirs), "memory differs: {}", handler.handler());
}
