//! What is checked of `exos-cheetah`'s FastCGI: what applications send, and chunked bodies of clients.
//!
//! Included by the fuzz targets and by `apps/cheetah/tests/all/http/corpus.rs`.

use exos_cheetah::applications::chunks::BodyError;
use exos_cheetah::applications::head::Head;
use exos_cheetah::applications::reply::{Content, Framing, Reply, ReplyError};
use exos_cheetah::applications::trailers::passed_on;
use exos_cheetah::applications::upload::Chunked;
use exos_cheetah::message::Version;

/// An answer, as far as it has come.
#[derive(Debug, Default, PartialEq, Eq)]
struct Whole {
    head: Option<Head>,
    content: Vec<u8>,
    taken: usize,
    is_over: bool,
    error: Option<ReplyError>,
}

/// Reads an application's bytes in parts of this many.
fn answer(bytes: &[u8], step: usize) -> Whole {
    let (mut reply, mut whole) = (Reply::default(), Whole::default());
    for part in bytes.chunks(step) {
        match reply.take(part, |name| name == "X-Set", &mut whole.content) {
            Ok((taken, head)) => {
                assert!(taken == part.len() || reply.is_over());
                whole.taken += taken;
                whole.head = whole.head.or(head);
            }
            Err(error) => whole.error = Some(error),
        }
        let _ = reply.take_warnings();
        if reply.is_over() || whole.error.is_some() {
            break;
        }
    }
    whole.is_over = reply.is_over();
    whole
}

/// An application's answer is the same however it is cut, and what its client gets of it has lines that are lines.
pub fn records(bytes: &[u8]) {
    let all = answer(bytes, bytes.len().max(1));
    for step in [1, 2, 7, 8, 9, 64] {
        let cut = answer(bytes, step);
        assert_eq!(
            (&cut.error, cut.is_over),
            (&all.error, all.is_over),
            "in parts of {step}"
        );
        if all.error.is_none() {
            assert_eq!(cut, all, "in parts of {step}");
        }
    }
    if let Some(head) = &all.head {
        assert!((200..600).contains(&head.code));
        let lines = head.fields.split_inclusive(|&b| b == b'\n');
        for line in lines {
            let line = line
                .strip_suffix(b"\r\n")
                .expect("a line ends as it should");
            assert!(line.contains(&b':') && !line.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
        }
        assert!(!head.reason.contains(['\r', '\n', '\0']));
        let mut framing = Framing::of(head.code, head.length, false, Version::Http11);
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        let mut content = Content::Bytes(all.content.clone());
        framing.frame(&mut content, &mut before, &mut behind);
        let _ = framing.end(b"", &mut behind);
        let len = before.len() + content.len() + behind.len();
        assert!(len <= all.content.len() + 32);
    }
}

fn body(bytes: &[u8], step: usize) -> (Result<(), BodyError>, Vec<u8>, usize, bool) {
    let (mut body, mut taken, mut result) = (Chunked::new(1000), 0, Ok(()));
    for part in bytes.chunks(step) {
        match body.take(part, usize::MAX) {
            Ok(count) => taken += count,
            Err(error) => {
                result = Err(error);
                break;
            }
        }
        assert!(body.content.len() <= 1000);
    }
    let is_over = body.is_over();
    let trailers = body.take_trailers();
    // What goes on of the fields behind it is read as what it is.
    let (fields, _) = passed_on(&trailers, |_| true);
    assert!(fields.len() <= 2 * trailers.len());
    assert_eq!(passed_on(&fields, |_| true), (fields.clone(), 0));
    body.content.extend(trailers);
    (result, body.content, taken, is_over)
}

/// A chunked body is the same however it is cut, and none is longer than it may be.
pub fn chunks(bytes: &[u8]) {
    let all = body(bytes, bytes.len().max(1));
    for step in [1, 2, 5, 64] {
        let cut = body(bytes, step);
        assert_eq!((cut.0, cut.3), (all.0, all.3), "in parts of {step}");
        if all.0.is_ok() {
            assert_eq!(cut, all, "in parts of {step}");
        }
    }
}
