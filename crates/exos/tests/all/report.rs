//! The daemon's report as a program has it: from the text that is lent to all who ask, and what is about the asker alone.

use crate::common;

use std::os::fd::{AsFd as _, OwnedFd};
use std::thread;

use common::Listener;
use exos::Error;
use exos::via::control::Control;
use exos_host::shared::LentText;
use exos_xok::message::{Answer, Refusal, Request};

/// What a program has of a report that is answered like this.
fn asked(answer: impl FnOnce(u32) -> (Vec<u8>, Option<OwnedFd>) + Send) -> Result<String, Error> {
    let listener = Listener::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let peer = listener.accept();
            let (tag, request) = peer.request();
            assert_eq!(request, Request::Status);
            let (bytes, fd) = answer(tag);
            let fds: Vec<_> = fd.iter().map(|fd| fd.as_fd()).collect();
            peer.send(&bytes, &fds);
        });
        Ok(Control::connect(&listener.path)?.report()?)
    })
}

fn report(bytes: usize, asker: &str) -> Answer {
    let (bytes, asker) = (bytes as u32, asker.to_owned());
    Answer::Report { bytes, asker }
}

#[test]
fn what_is_about_the_asker_becomes_a_member_of_the_object() {
    let text = LentText::new("exos-test", r#"{"pid":7,"cuts":{}}"#).expect("memory");
    let told = asked(|tag| {
        let fd = text.lend().expect("a descriptor");
        let answer = report(text.len(), r#"{"uid":1000}"#);
        (answer.encode(tag), Some(fd))
    });
    let whole = r#"{"pid":7,"cuts":{},"asker":{"uid":1000}}"#;
    assert_eq!(told.expect("a report"), whole);
}

#[test]
fn a_report_that_was_taken_back_is_said_to_be() {
    let error = asked(|tag| {
        let text = LentText::new("exos-test", "{}").expect("memory");
        let (answer, fd) = (report(text.len(), "{}"), text.lend().expect("a descriptor"));
        text.take_back();
        (answer.encode(tag), Some(fd))
    });
    let error = error.expect_err("nothing to read").to_string();
    assert!(error.contains("taken back"), "{error}");
    assert!(error.contains("ask again"), "{error}");
}

/// An answer without its text, one of the protocol's first version (which had the length alone), and no.
#[test]
fn what_is_no_report_is_refused_with_what_to_do() {
    let lost = asked(|tag| (report(2, "{}").encode(tag), None));
    let lost = lost.expect_err("no text").to_string();
    assert!(lost.contains("same version of exos"), "{lost}");

    let first = asked(|tag| {
        let mut bytes = report(2, "").encode(tag);
        bytes.truncate(bytes.len() - 2);
        (bytes, None)
    });
    let first = first.expect_err("another protocol").to_string();
    assert!(first.contains("same version of exos"), "{first}");

    let no = asked(|tag| {
        let text = "first ask for less".to_owned();
        let code = Refusal::Limit;
        (Answer::Refused { code, text }.encode(tag), None)
    });
    let no = no.expect_err("refused").to_string();
    assert_eq!(no, "the daemon refuses: first ask for less");
}
