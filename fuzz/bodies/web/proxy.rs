//! What is checked of `exos-cheetah` as a proxy: answers of upstreams, and requests that are written again for them, and headers of the PROXY protocol.
//!
//! Included by the fuzz targets and by `apps/cheetah/tests/all/http/corpus.rs`.

use std::sync::Arc;

use exos_cheetah::applications::head::Head;
use exos_cheetah::applications::proxy::answer::{Answer, AnswerError, Question};
use exos_cheetah::applications::proxy::request::{self, About};
use exos_cheetah::applications::proxy::{HostField, Proxy};
use exos_cheetah::applications::trailers::are_wanted;
use exos_cheetah::applications::{Address, Application, Asked, Place};
use exos_cheetah::limits::PROXY_HEADER_LEN_MAX;
use exos_cheetah::message::Fault;
use exos_cheetah::message::Version;
use exos_cheetah::message::request::{Body, FieldStore, parse};
use exos_cheetah::message::target::Target;
use exos_cheetah::proxy_protocol::header;

/// An answer, as far as it has come.
#[derive(Debug, Default, PartialEq, Eq)]
struct Whole {
    interim: Vec<u8>,
    head: Option<Head>,
    content: Vec<u8>,
    trailers: Vec<u8>,
    taken: usize,
    is_over: bool,
    may_be_followed: bool,
    error: Option<AnswerError>,
}

/// Reads an upstream's bytes in parts of this many.
fn answer(bytes: &[u8], question: Question, step: usize) -> Whole {
    let (mut answer, mut whole) = (Answer::to(question), Whole::default());
    for part in bytes.chunks(step) {
        match answer.take(part, |name| name == "X-Set", &mut whole.content) {
            Ok(taken) => {
                assert!(taken.count == part.len() || answer.is_over());
                whole.taken += taken.count;
                whole.interim.extend(taken.interim);
                whole.trailers.extend(taken.trailers);
                assert!(taken.head.is_none() || whole.head.is_none(), "one head");
                whole.head = whole.head.or(taken.head);
            }
            Err(error) => whole.error = Some(error),
        }
        if answer.is_over() || whole.error.is_some() {
            break;
        }
    }
    whole.is_over = answer.is_over();
    whole.may_be_followed = answer.may_be_followed();
    whole
}

/// An answer is the same however it is cut, no more of it is content than came, and what its client gets are lines. The first byte says
/// what was asked.
pub fn answers(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let question = Question {
        asks_head: first & 1 != 0,
        wants_upgrade: first & 2 != 0,
        may_be_kept: true,
    };
    let all = answer(bytes, question, bytes.len().max(1));
    for step in [1, 2, 7, 64] {
        let cut = answer(bytes, question, step);
        assert_eq!(
            (&cut.error, cut.is_over),
            (&all.error, all.is_over),
            "in parts of {step}"
        );
        if all.error.is_none() {
            assert_eq!(cut, all, "in parts of {step}");
        }
    }
    assert!(all.content.len() <= bytes.len());
    assert!(all.is_over || !all.may_be_followed);
    if let Some(head) = &all.head {
        assert!((200..600).contains(&head.code) || head.code == 101 && question.wants_upgrade);
        check_lines(&head.fields);
        assert!(!head.reason.contains(['\r', '\n', '\0']));
        if head.code != 101 && question.asks_head || matches!(head.code, 204 | 304) {
            assert!(all.is_over && all.content.is_empty());
        }
        if let (Some(length), true) = (head.length, all.is_over && !question.asks_head) {
            assert!(matches!(head.code, 204 | 304) || length == all.content.len() as u64);
        }
    }
}

/// A header of the PROXY protocol is the same however it is cut, and no longer than what came.
pub fn headers(bytes: &[u8]) {
    let all = header::parse(bytes);
    for cut in 0..bytes.len().min(300) {
        let part = header::parse(&bytes[..cut]);
        match all {
            Ok(Some(whole)) if cut < whole.len => assert_eq!(part, Ok(None), "{cut}"),
            Ok(Some(whole)) => assert_eq!(part, Ok(Some(whole)), "{cut}"),
            Ok(None) => assert_eq!(part, Ok(None), "{cut}"),
            // What is wrong shows when that has come, and not before it is wrong.
            Err(error) => assert!(part == Ok(None) || part == Err(error), "{cut}: {part:?}"),
        }
    }
    if let Ok(Some(header)) = all {
        assert!(header.len <= bytes.len() && header.len <= PROXY_HEADER_LEN_MAX);
    }
}

/// Lines of fields, each with a name and nothing that ends it before its end.
fn check_lines(fields: &[u8]) {
    for line in fields.split_inclusive(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r\n").expect("it ends as it should");
        assert!(line.contains(&b':') && !line.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
    }
}

/// What a request becomes for an upstream is one request, of the length that was understood, with one host and no field about the
/// connection but our own. The first byte says how it is asked.
pub fn requests(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let mut store = FieldStore::new();
    let Ok(Some(asked)) = parse(bytes, &mut store) else {
        return;
    };
    if asked.body == Body::UnknownCoding || Target::parse(asked.target).is_err() {
        return; // It is refused before.
    }
    let to = Address::Http(Place::parse("10.0.0.5:8080").expect("it is one"));
    let proxy = proxy_of(*first);
    let length = match asked.body {
        Body::Length(0) => None,
        Body::Length(length) => Some(length),
        Body::Chunked | Body::UnknownCoding => Some(77),
    };
    let about = About {
        asked: &Asked {
            application: Arc::new(Application::at(to.clone())),
            script: b"/a".to_vec(),
            info: b"/b\r\n \xff%".to_vec(),
            is_front: false,
        },
        proxy: &proxy,
        to: &to,
        peer: "192.0.2.1".parse().expect("an address"),
        length,
        is_chunked: false,
        is_encrypted: first & 32 != 0,
        is_early: first & 160 == 160,
        keeps: first & 64 != 0,
        websocket_key: None,
        validators: None,
        tls: None,
    };
    let mut written = Vec::new();
    request::push(&mut written, &asked, &about);
    let mut store = FieldStore::new();
    let again = match parse(&written, &mut store) {
        Ok(Some(again)) => again,
        // Ours may be more fields, and more bytes, than a client may send.
        Err(Fault::TooManyFields | Fault::HeadTooLong | Fault::TargetTooLong) => return,
        other => panic!("{other:?}: {}", written.escape_ascii()),
    };
    assert_eq!(
        (again.head_len, again.version),
        (written.len(), Version::Http11)
    );
    assert_eq!(again.method_name, asked.method_name);
    assert_eq!(again.body, Body::Length(length.unwrap_or(0)));
    let count = |name: &str| {
        let all = again.fields.iter();
        all.filter(|it| it.name.eq_ignore_ascii_case(name)).count()
    };
    assert_eq!(count("host"), 1);
    assert!(count("connection") <= 1 && count("upgrade") <= 1);
    assert_eq!(count("transfer-encoding") + count("expect"), 0);
    // It is a word of ours, where the client takes fields behind an answer.
    assert_eq!(count("te"), usize::from(are_wanted(&asked)));
    assert_eq!((count("forwarded"), count("x-forwarded-for")), (1, 1));
}

/// How an upstream is asked, by the bits of a byte.
fn proxy_of(first: u8) -> Proxy {
    Proxy {
        base: (first & 1 != 0).then(|| "/base".to_owned()),
        host: match first & 6 {
            0 => HostField::Client,
            2 => HostField::Upstream,
            _ => HostField::Named("other.test".to_owned()),
        },
        trusted: (first & 8 != 0)
            .then(|| "0.0.0.0/0".parse().expect("a network"))
            .into_iter()
            .collect(),
        upgrades: first & 16 != 0,
        ..Proxy::default()
    }
}
