//! A check by HTTP: what is asked, and what is made of the answer.
//!
//! The answer is what any server gives: it is read up to a bound, and judged as soon as that can be. Bodies are looked at as
//! they come, so a text that a server cuts in two by its chunks is not found.

use std::fmt;
use std::net::SocketAddr;

use super::rule::Question;
use crate::limits::CHECK_ANSWER_LEN_MAX;

/// Fields of an answer that are read.
const FIELDS_MAX: usize = 100;

/// Why a server did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It refuses connections.
    Refused,
    /// It says nothing, or not enough, in time.
    Silent,
    /// It ended the connection too early.
    CutOff,
    /// It cannot be reached: no route, or nobody at its address.
    Unreachable,
    /// What it says is no HTTP.
    NotHttp,
    /// Another status than wanted.
    Status(u16),
    /// The body has not in it what is wanted.
    Body,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => write!(out, "refuses connections"),
            Self::Silent => write!(out, "does not answer in time"),
            Self::CutOff => write!(out, "ends the connection too early"),
            Self::Unreachable => write!(out, "cannot be reached"),
            Self::NotHttp => write!(out, "answers what is no HTTP"),
            Self::Status(status) => write!(out, "answers with status {status}"),
            Self::Body => write!(out, "answers without the wanted text"),
        }
    }
}

/// What a server has said so far.
#[derive(Default)]
pub struct Answer {
    heard: Vec<u8>,
    /// Where its body begins, once its head was read and found good.
    body_at: Option<usize>,
    /// So far there is nothing of what is looked for.
    searched: usize,
}

impl Answer {
    /// It has said more.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.heard.extend(bytes);
    }
}

impl Question {
    /// What is sent to a server.
    pub fn text(&self, end: SocketAddr) -> String {
        let host = self.host.clone().unwrap_or_else(|| end.to_string());
        let path = &self.path;
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: exos-forward\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )
    }

    /// What is to be said of an answer of which so much has come; `None` while more of it may change that. What was looked at
    /// is not looked at again.
    pub fn judge(&self, answer: &mut Answer, is_whole: bool) -> Option<Result<(), Failure>> {
        let is_whole = is_whole || answer.heard.len() >= CHECK_ANSWER_LEN_MAX;
        if answer.body_at.is_none() {
            match self.judge_head(&answer.heard, is_whole)? {
                Ok(len) => (answer.body_at, answer.searched) = (Some(len), len),
                Err(failure) => return Some(Err(failure)),
            }
        }
        let Some(wanted) = &self.body else {
            return Some(Ok(()));
        };
        let mut parts = answer.heard[answer.searched..].windows(wanted.len());
        if parts.any(|part| part == wanted.as_bytes()) {
            return Some(Ok(()));
        }
        // Its beginning may be there.
        let body_at = answer.body_at.unwrap_or(0);
        answer.searched = body_at.max((answer.heard.len() + 1).saturating_sub(wanted.len()));
        is_whole.then_some(Err(Failure::Body))
    }

    /// How long the head is, if it is good; `None` while it is not whole.
    fn judge_head(&self, heard: &[u8], is_whole: bool) -> Option<Result<usize, Failure>> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let len = match response.parse(heard) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) if !is_whole => return None,
            Ok(httparse::Status::Partial) if heard.is_empty() => {
                return Some(Err(Failure::CutOff));
            }
            Ok(httparse::Status::Partial) | Err(_) => return Some(Err(Failure::NotHttp)),
        };
        let status = response.code.unwrap_or(0);
        match self.status.contains(&status) {
            true => Some(Ok(len)),
            false => Some(Err(Failure::Status(status))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(body: Option<&str>) -> Question {
        Question {
            path: "/well".to_owned(),
            host: None,
            status: 200..=299,
            body: body.map(str::to_owned),
        }
    }

    impl Question {
        /// Of an answer that comes at once.
        fn judge_all(&self, heard: &[u8], is_whole: bool) -> Option<Result<(), Failure>> {
            let mut answer = Answer::default();
            answer.extend(heard);
            self.judge(&mut answer, is_whole)
        }
    }

    /// However an answer comes, byte by byte or in two parts, it is judged as if it had come at once.
    #[test]
    fn answers_in_parts() {
        let text = question(Some("wowowell"));
        let whole = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nwowowowell, wowo".as_slice();
        let at = whole.len() - ", wowo".len();
        let mut answer = Answer::default();
        for (n, byte) in (1..).zip(whole) {
            answer.extend(&[*byte]);
            let judged = text.judge(&mut answer, false);
            assert_eq!(judged.is_some(), n == at, "{n}");
            if judged.is_some() {
                break;
            }
        }
        for cut in 0..=whole.len() {
            let mut answer = Answer::default();
            answer.extend(&whole[..cut]);
            let first = text.judge(&mut answer, false);
            assert_eq!(first, text.judge_all(&whole[..cut], false));
            answer.extend(&whole[cut..]);
            assert!(
                first.is_some() || text.judge(&mut answer, true) == Some(Ok(())),
                "{cut}"
            );
        }
    }

    #[test]
    fn answers_are_judged_as_soon_as_they_can_be() {
        let plain = question(None);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(plain.judge_all(b"", false), None);
        assert_eq!(plain.judge_all(&head[..30], false), None);
        assert_eq!(plain.judge_all(head, false), Some(Ok(())));
        let text = question(Some("all well"));
        assert_eq!(text.judge_all(head, false), None);
        let whole = [&head[..], b"all well\n"].concat();
        assert_eq!(text.judge_all(&whole[..whole.len() - 3], false), None);
        assert_eq!(text.judge_all(&whole, false), Some(Ok(())));
    }

    #[test]
    fn whatever_else_a_server_says_is_named() {
        let text = question(Some("well"));
        let judge = |answer: &[u8]| text.judge_all(answer, true).unwrap().unwrap_err();
        assert_eq!(judge(b""), Failure::CutOff);
        assert_eq!(judge(b"HTTP/1.1 200 OK\r\nConten"), Failure::NotHttp);
        assert_eq!(judge(b"SSH-2.0-OpenSSH\r\n"), Failure::NotHttp);
        assert_eq!(judge(b"HTTP/1.1 503 No\r\n\r\nwell"), Failure::Status(503));
        assert_eq!(judge(b"HTTP/1.1 200 OK\r\n\r\nwel"), Failure::Body);
        let endless = [
            b"HTTP/1.1 200 OK\r\n\r\n",
            &[b'x'; CHECK_ANSWER_LEN_MAX][..],
        ]
        .concat();
        assert_eq!(text.judge_all(&endless, false), Some(Err(Failure::Body)));
    }

    #[test]
    fn a_host_is_named() {
        let end = "[fd00::1]:80".parse().unwrap();
        let text = question(None).text(end);
        assert!(text.starts_with("GET /well HTTP/1.1\r\nHost: [fd00::1]:80\r\n"));
        assert!(text.ends_with("\r\n\r\n"));
    }
}
