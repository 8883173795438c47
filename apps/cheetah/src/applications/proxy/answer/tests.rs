use super::*;

/// What becomes of an answer that comes in parts of this length, its connection ending in order behind it where `ends`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Whole {
    code: u16,
    fields: String,
    content: String,
    interim: String,
    taken: usize,
    is_over: bool,
    may_be_followed: bool,
}

const GET: Question = Question {
    asks_head: false,
    wants_upgrade: false,
    may_be_kept: false,
};

fn read(text: &str, question: Question, step: usize, ends: bool) -> Result<Whole, AnswerError> {
    let mut answer = Answer::to(question);
    let (mut whole, mut content) = (Whole::default(), Vec::new());
    for part in text.as_bytes().chunks(step) {
        let taken = answer.take(part, |name| name == "X-Set", &mut content)?;
        assert!(taken.count == part.len() || answer.is_over(), "{text}");
        whole.taken += taken.count;
        whole.interim += str::from_utf8(&taken.interim).unwrap();
        if let Some(head) = taken.head {
            assert_eq!(whole.code, 0, "one head");
            whole.code = head.code;
            whole.fields = String::from_utf8(head.fields).unwrap();
        }
        if answer.is_over() {
            break;
        }
    }
    if ends {
        answer.ends_with(Reason::Done);
    }
    whole.content = String::from_utf8(content).unwrap();
    (whole.is_over, whole.may_be_followed) = (answer.is_over(), answer.may_be_followed());
    Ok(whole)
}

/// However it is cut.
fn read_all_ways(text: &str, question: Question, ends: bool) -> Result<Whole, AnswerError> {
    let all = read(text, question, text.len().max(1), ends);
    for step in 1..text.len().min(200) {
        assert_eq!(read(text, question, step, ends), all, "{text} by {step}");
    }
    all
}

#[test]
fn an_answer_ends_where_its_head_says() {
    for (text, content, ends_with_connection, may_be_followed) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "abc",
            false,
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "",
            false,
            true,
        ),
        (
            "HTTP/1.1 200\r\nContent-Length: 1\r\nConnection: x, close\r\n\r\na",
            "a",
            false,
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
            "a",
            false,
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive\r\n\r\na",
            "a",
            false,
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
            "abc0123456789",
            false,
            true,
        ),
        (
            "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n",
            "",
            false,
            true,
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
            "",
            false,
            true,
        ),
        ("HTTP/1.1 200 OK\r\n\r\nabc", "abc", true, false),
        ("HTTP/1.0 404 Not Found\nA: b\n\n", "", true, false),
    ] {
        let whole = read_all_ways(text, GET, ends_with_connection).expect(text);
        let is = (
            &*whole.content,
            whole.taken,
            whole.is_over,
            whole.may_be_followed,
        );
        assert_eq!(is, (content, text.len(), true, may_be_followed), "{text}");
        for cut in 0..text.len() {
            let part = read(&text[..cut], GET, 7, false);
            let part = part.expect("a part of what is good is no error");
            assert!(!part.is_over, "{:?}", &text[..cut]);
        }
    }
}

/// What comes behind the end is not taken.
#[test]
fn what_is_behind_the_end_is_left() {
    let behind = "HTTP/1.1 200 OK\r\n";
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 204 None\r\n\r\n",
    ] {
        for step in 1..text.len() {
            // Where it is cut just behind the end nothing of what is behind is seen.
            let whole = read(&format!("{text}{behind}"), GET, step, false).expect(text);
            assert_eq!((whole.taken, whole.is_over), (text.len(), true), "{text}");
        }
    }
}

#[test]
fn an_answer_to_head_has_no_content() {
    let question = Question {
        asks_head: true,
        ..GET
    };
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
    ] {
        let whole = read_all_ways(text, question, false).expect(text);
        assert!(whole.is_over && whole.may_be_followed, "{text}");
    }
}

#[test]
fn answers_before_the_last_one_go_on_but_for_leave() {
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: X-A\r\nX-A: b\r\n\r\n\
                HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
    let whole = read_all_ways(text, GET, false).unwrap();
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    assert_eq!(
        (whole.code, &*whole.interim, &*whole.content),
        (200, hints, "a")
    );
    let many = "HTTP/1.1 102 Wait\r\n\r\n".repeat(INTERIM_ANSWERS_MAX + 1);
    assert_eq!(read(&many, GET, 9, false), Err(AnswerError::Interims));
}

#[test]
fn another_protocol_is_what_was_asked_for() {
    let text = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-A: b\r\n\r\n\x01\x02";
    assert_eq!(read(text, GET, 9, false), Err(AnswerError::Protocol));
    let question = Question {
        wants_upgrade: true,
        may_be_kept: false,
        ..GET
    };
    let whole = read_all_ways(text, question, false).unwrap();
    assert_eq!(
        (whole.code, &*whole.content, whole.is_over),
        (101, "\x01\x02", false)
    );
    let fields = "X-A: b\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
    assert_eq!(whole.fields, fields);
    assert!(read(text, question, 9, true).unwrap().is_over);
}

#[test]
fn fields_about_the_connection_are_left_out() {
    let text = "HTTP/1.1 200 OK\r\nServer: x\r\nDate: now\r\nConnection: close, X-Hop\r\nX-Hop: a\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\n\
                Trailer: X\r\nX-Set: no\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n";
    let whole = read_all_ways(text, GET, false).unwrap();
    let wanted = "Set-Cookie: a=1\r\nset-cookie: b=2\r\nETag: \"x\"\r\n";
    assert_eq!(whole.fields, wanted);
}

#[test]
fn what_leaves_a_doubt_is_no_answer() {
    let syntax = AnswerError::Head(HeadError::Syntax);
    let length = AnswerError::Head(HeadError::Length);
    let long = format!(
        "HTTP/1.1 200 OK\r\nA: {}",
        "x".repeat(APPLICATION_HEAD_LEN_MAX)
    );
    let many = format!(
        "HTTP/1.1 200 OK\r\n{}",
        "A: b\r\n".repeat(APPLICATION_FIELDS_MAX + 1)
    );
    for (text, wanted) in [
        ("SSH-2.0-OpenSSH\r\n\r\n", syntax),
        ("HTTP/2.0 200 OK\r\n\r\n", syntax),
        ("HTTP/1.1 20 OK\r\n\r\n", syntax),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", syntax),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", syntax),
        ("HTTP/1.1 200 OK\r\nA: b\rSet-Cookie: c\r\n\r\n", syntax),
        ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", syntax),
        ("HTTP/1.1 600 No\r\n\r\n", AnswerError::Status(600)),
        ("HTTP/1.1 099 No\r\n\r\n", AnswerError::Status(99)),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            length,
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", length),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", length),
        ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", length),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            length,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            AnswerError::LengthAndCoding,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            AnswerError::Coding,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            AnswerError::Coding,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            AnswerError::Coding,
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            AnswerError::Coding,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            AnswerError::Chunks(BodyError::Syntax),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
            AnswerError::Chunks(BodyError::Syntax),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
            AnswerError::Chunks(BodyError::TooLong),
        ),
        (&long, AnswerError::HeadLength),
        (&many, AnswerError::Head(HeadError::TooManyFields)),
    ] {
        for step in [1, 7, 64, 100_000] {
            let shown = text.get(..80).unwrap_or(text);
            assert_eq!(read(text, GET, step, false), Err(wanted), "{shown}");
        }
    }
}

/// A connection that is reset ends no answer; one without an answer ends none either.
#[test]
fn only_an_end_in_order_ends_an_answer() {
    let mut answer = Answer::to(GET);
    assert!(answer.is_fresh() && !answer.ends_with(Reason::Done));
    let head = b"HTTP/1.1 200 OK\r\n\r\nabc";
    answer.take(head, |_| false, &mut Vec::new()).unwrap();
    assert!(!answer.is_fresh() && !answer.ends_with(Reason::Reset) && !answer.is_over());
    assert!(answer.ends_with(Reason::Done) && answer.is_over());
    let mut short = Answer::to(GET);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab";
    short.take(head, |_| false, &mut Vec::new()).unwrap();
    assert!(!short.ends_with(Reason::Done) && !short.is_over());
}
