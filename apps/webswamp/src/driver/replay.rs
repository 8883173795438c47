//! An access log, asked for again: the same methods and targets in the same order.
//!
//! By the log's times ([`Log::beats`], for [`Schedule::replay`](crate::schedule::Schedule::replay)), or by a closed loop
//! of clients, each of which takes the next line when it has its response.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Read as _};
use std::sync::Arc;
use std::time::Duration;

use exos_inet::Part;
use serde::{Deserialize, Serialize};

use super::log_line::{LogLine, NoRequest};
use super::task::{Driver, Task};
use crate::limits::{LOG_LINE_LEN_MAX, LOG_LINES_MAX, LOG_SPAN_MAX, REQUESTS_MAX};
use crate::request::Request;
use crate::schedule::Beat;

/// A log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Each method and target once.
    pub requests: Vec<(String, String)>,
    /// Lines in order: when, in seconds since 1970, and which of the requests.
    pub lines: Vec<(u64, u32)>,
    /// Lines that are no requests, by why they are none.
    pub left_out: BTreeMap<NoRequest, u64>,
    /// The first of these, and why it is none.
    pub first_left_out: Option<(u64, NoRequest)>,
}

/// What became of a log: what of it was asked for, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Extent {
    /// Requests in it.
    pub requests: u64,
    /// Those of them that were begun, before the load ended.
    pub begun: u64,
    /// Lines that are no requests, by why they are none; only reasons that happened.
    pub left_out: BTreeMap<String, u64>,
}

impl Extent {
    /// Lines that are no requests.
    pub fn left_out_all(&self) -> u64 {
        self.left_out.values().sum()
    }
}

impl Log {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// It cannot be read, no line of it is a request, or there are too many.
    pub fn read(mut from: impl BufRead) -> Result<Self, String> {
        let mut log = Self::default();
        let mut known = HashMap::new();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let length = read_line(&mut from, &mut line).map_err(|e| e.to_string())?;
            if length == 0 {
                break;
            }
            let parsed = if length > LOG_LINE_LEN_MAX {
                Err(NoRequest::Length)
            } else {
                LogLine::parse(line.trim_ascii_end())
            };
            match parsed {
                Ok(parsed) => log.add(parsed, &mut known)?,
                Err(_) if line.trim_ascii().is_empty() => (),
                Err(why) => {
                    *log.left_out.entry(why).or_default() += 1;
                    log.first_left_out.get_or_insert((number, why));
                }
            }
        }
        match log.first_left_out {
            _ if !log.lines.is_empty() => Ok(log),
            Some((number, why)) => Err(format!(
                "no line of it is a request; of line {number}: {why}"
            )),
            None => Err("there is nothing in it".to_owned()),
        }
    }

    /// What of it there is to ask for, and what is left out.
    pub fn extent(&self) -> Extent {
        let left_out = self.left_out.iter();
        Extent {
            requests: self.lines.len() as u64,
            begun: 0,
            left_out: left_out
                .map(|(why, count)| (<&str>::from(why).to_owned(), *count))
                .collect(),
        }
    }

    fn add(
        &mut self,
        line: LogLine,
        known: &mut HashMap<(String, String), u32>,
    ) -> Result<(), String> {
        if self.lines.len() == LOG_LINES_MAX {
            return Err(format!(
                "there are more than {LOG_LINES_MAX} requests in it"
            ));
        }
        let what = (line.method, line.target);
        let request = match known.get(&what) {
            Some(&request) => request,
            None if self.requests.len() == REQUESTS_MAX => {
                return Err(format!(
                    "there are more than {REQUESTS_MAX} different requests in it"
                ));
            }
            None => {
                let request = self.requests.len() as u32;
                self.requests.push(what.clone());
                known.insert(what, request);
                request
            }
        };
        self.lines.push((line.time, request));
        Ok(())
    }

    /// Puts the lines in order of time: servers write them when responses end, several cores each for itself.
    pub fn sort(&mut self) {
        self.lines.sort_by_key(|(time, _)| *time);
    }

    /// The times of sorted lines.
    ///
    /// # Errors
    ///
    /// They lie years apart.
    pub fn beats(&self) -> Result<Vec<Beat>, String> {
        let first = self.lines.first().map_or(0, |(time, _)| *time);
        let mut beats: Vec<Beat> = Vec::new();
        for (time, _) in &self.lines {
            let second = time - first;
            match beats.last_mut() {
                Some(last) if last.second == second => last.count += 1,
                _ => beats.push(Beat { second, count: 1 }),
            }
        }
        match beats.last() {
            Some(last) if last.second > LOG_SPAN_MAX.as_secs() => Err(format!(
                "its times are {} days apart; say --as-fast-as-possible if they do not matter",
                last.second / 86_400
            )),
            _ => Ok(beats),
        }
    }
}

/// A line, with its end, of which no more is kept than what a line may have; says how long it was.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut kept = from.by_ref().take(LOG_LINE_LEN_MAX as u64);
    let length = kept.read_until(b'\n', line)?;
    if length < LOG_LINE_LEN_MAX || line.last() == Some(&b'\n') {
        return Ok(length);
    }
    Ok(length + from.skip_until(b'\n')?)
}

/// Requests in their order, once.
pub struct Replay {
    requests: Vec<Request>,
    order: Arc<[u32]>,
    /// How many of ours have been taken.
    taken: u64,
    part: Part,
    think: Duration,
}

impl Replay {
    /// Requests, and their order by their places; of these the ones of a part.
    ///
    /// # Panics
    ///
    /// A place is none.
    pub fn new(requests: Vec<Request>, order: Arc<[u32]>, part: Part, think: Duration) -> Self {
        let is_place = |&place: &u32| (place as usize) < requests.len();
        assert!(order.iter().all(is_place), "the order is of requests");
        Self {
            requests,
            order,
            taken: 0,
            part,
            think,
        }
    }
}

impl Driver for Replay {
    fn requests(&self) -> &[Request] {
        &self.requests
    }

    fn first(&mut self, client: u32) -> Option<Task> {
        self.next(client).map(Task::at_once)
    }

    fn next(&mut self, _client: u32) -> Option<Task> {
        let place = usize::try_from(self.part.number(self.taken)).ok()?;
        let request = *self.order.get(place)?;
        self.taken += 1;
        let think = self.think;
        Some(Task { request, think })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Content;
    use proptest::prelude::*;

    fn line(second: u64, request: &str) -> String {
        format!("h - - [22/Nov/2026:14:32:{second:02} +0000] \"{request}\" 200 5 \"-\" \"x\"\n")
    }

    #[test]
    fn a_log() {
        let text = [
            line(3, "GET /a HTTP/1.1"),
            line(3, "HEAD /a HTTP/1.1"),
            "\n".to_owned(),
            line(9, "-"),
            line(9, "GET /a HTTP/1.0"),
            line(4, "GET /b HTTP/1.1"),
            "no line\n".to_owned(),
            line(4, "GET /a HTTP/1.1").trim_end().to_owned(),
        ];
        let mut log = Log::read(text.concat().as_bytes()).unwrap();
        let requests: Vec<_> = log.requests.iter().map(|(m, t)| (&**m, &**t)).collect();
        assert_eq!(requests, [("GET", "/a"), ("HEAD", "/a"), ("GET", "/b")]);
        let order = |log: &Log| -> Vec<u32> { log.lines.iter().map(|(_, which)| *which).collect() };
        assert_eq!(order(&log), [0, 1, 0, 2, 0]);
        assert_eq!(
            (log.left_out.clone(), log.first_left_out),
            (
                BTreeMap::from([(NoRequest::Request, 1), (NoRequest::Format, 1)]),
                Some((4, NoRequest::Request))
            )
        );
        log.sort();
        assert_eq!(order(&log), [0, 1, 2, 0, 0]);
        let beats = [(0, 2), (1, 2), (6, 1)].map(|(second, count)| Beat { second, count });
        assert_eq!(log.beats().unwrap(), beats);
    }

    #[test]
    fn logs_that_are_none() {
        for (text, part) in [
            ("", "nothing in it"),
            ("\n \n", "nothing in it"),
            ("a\nb\n", "line 1"),
        ] {
            let error = Log::read(text.as_bytes()).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
        let apart = line(0, "GET / HTTP/1.1") + &line(0, "GET / HTTP/1.1").replace("2026", "2226");
        let error = Log::read(apart.as_bytes()).unwrap().beats().unwrap_err();
        assert!(error.contains("days apart"), "{error}");
    }

    #[test]
    fn lines_without_end() {
        for length in [LOG_LINE_LEN_MAX - 1, LOG_LINE_LEN_MAX, 3 * LOG_LINE_LEN_MAX] {
            let text = format!("{}\n{}", "x".repeat(length), line(1, "GET / HTTP/1.1"));
            let log = Log::read(text.as_bytes()).unwrap();
            let why = if length < LOG_LINE_LEN_MAX {
                NoRequest::Format
            } else {
                NoRequest::Length
            };
            assert_eq!((log.lines.len(), log.first_left_out), (1, Some((1, why))));
        }
    }

    #[test]
    fn each_line_once() {
        let request = Request::new(&Content::get(&"http://h/".parse().unwrap()));
        let requests = vec![request.clone(), request];
        let order = [1, 0, 1].into();
        let mut driver = Replay::new(requests, order, Part::WHOLE, Duration::ZERO);
        let asked: Vec<_> = std::iter::from_fn(|| driver.next(7))
            .map(|task| task.request)
            .collect();
        assert_eq!(asked, [1, 0, 1]);
        assert_eq!(driver.next(0), None);
    }

    /// Each core has its lines, to the last.
    #[test]
    fn parts_make_the_whole() {
        let request = Request::new(&Content::get(&"http://h/".parse().unwrap()));
        let order: Arc<[u32]> = (0..7).collect();
        let lines = |part| -> Vec<u32> {
            let requests = vec![request.clone(); 7];
            let mut driver = Replay::new(requests, order.clone(), part, Duration::ZERO);
            let tasks = std::iter::from_fn(|| driver.next(0));
            tasks.map(|task| task.request).collect()
        };
        let parts: Vec<_> = Part::all(3).map(lines).collect();
        assert_eq!(parts, [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
        assert!(lines(Part::new(8, 9)).is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..500)) {
            let _ = Log::read(&*text);
        }

        /// However lines lie in time, none is lost and each second has its own.
        #[test]
        fn beats_count_all(seconds in prop::collection::vec(0u64..60, 1..100)) {
            let text: String = seconds.iter().map(|&s| line(s, "GET / HTTP/1.1")).collect();
            let mut log = Log::read(text.as_bytes()).unwrap();
            log.sort();
            let beats = log.beats().unwrap();
            prop_assert!(beats.windows(2).all(|w| w[0].second < w[1].second));
            let first = seconds.iter().min().unwrap();
            for beat in &beats {
                let same = seconds.iter().filter(|&&s| s - first == beat.second).count();
                prop_assert_eq!(beat.count as usize, same);
            }
            prop_assert_eq!(beats.iter().map(|b| b.count as usize).sum::<usize>(), seconds.len());
        }
    }
}
