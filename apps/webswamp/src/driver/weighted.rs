//! A list of documents, each asked for as often as its weight says.
//!
//! The list is a text, a document a line; what follows a # at the begin of a line or behind a blank is a comment:
//!
//! ```text
//! http://10.10.0.10/
//! 10  /index.html          # ten times as often
//! 0.5 /search?q=exokernel
//! ```
//!
//! All are of one server. Chosen by an alias table (Vose 1991), in a time that does not grow with the list.

use std::time::Duration;

use exos_inet::Part;
use http::Uri;
use rand_distr::Distribution as _;
use rand_distr::weighted::WeightedAliasIndex;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;

use super::task::{Driver, Task};
use crate::limits::REQUESTS_MAX;
use crate::request::{Request, target_of};

/// A line of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// How often, beside the others.
    pub weight: f64,
    /// Path and query.
    pub target: String,
}

/// A list.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Whether TLS is spoken with it: `http` or `https`.
    pub scheme: &'static str,
    /// The server that all are of, as HOST[:PORT].
    pub authority: String,
    /// What is asked for, at least one.
    pub entries: Vec<Entry>,
}

/// The highest weight: the sum of all documents' is exact enough.
const WEIGHT_MAX: f64 = 1e9;

impl List {
    /// Reads one; paths are of the server that is given, or else of that of the URLs.
    ///
    /// # Errors
    ///
    /// What is wrong, with the number of the line where it is.
    pub fn parse(text: &str, server: Option<&Uri>) -> Result<Self, String> {
        let mut origin = server.and_then(origin_of);
        let mut entries = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let at = |what: String| format!("line {number}: {what}");
            let Some((weight, place)) = fields(line).map_err(at)? else {
                continue;
            };
            let (its, target) = parts(place).map_err(at)?;
            match (&origin, its) {
                (Some((scheme, one)), Some((other_scheme, other))) => {
                    if *scheme != other_scheme || !is_same(one, &other, scheme) {
                        return Err(at(format!(
                            "{other_scheme}://{other} is another server than {scheme}://{one}; a load is of one"
                        )));
                    }
                }
                (None, its) => origin = its,
                (Some(_), None) => (),
            }
            if entries.len() == REQUESTS_MAX {
                return Err(at(format!("there are more than {REQUESTS_MAX} lines")));
            }
            entries.push(Entry { weight, target });
        }
        if entries.is_empty() {
            return Err("there is no URL in it; write one a line".to_owned());
        }
        let help = "no line names the server; write http://HOST/ before a path, or give a URL beside the list";
        let (scheme, authority) = origin.ok_or(help)?;
        Ok(Self {
            scheme,
            authority,
            entries,
        })
    }
}

/// Weight and place of a line; `None` when it says nothing.
fn fields(line: &str) -> Result<Option<(f64, &str)>, String> {
    let words = line.split_ascii_whitespace();
    let mut words = words.take_while(|word| !word.starts_with('#'));
    let (first, second, more) = (words.next(), words.next(), words.next());
    if let Some(more) = more {
        return Err(format!("{more:?} is too much; write [WEIGHT] URL"));
    }
    match (first, second) {
        (Some(weight), Some(place)) => Ok(Some((self::weight(weight)?, place))),
        (Some(place), None) if place.parse::<f64>().is_ok() => {
            Err(format!("there is no URL behind the weight {place}"))
        }
        (Some(place), None) => Ok(Some((1.0, place))),
        (None, _) => Ok(None),
    }
}

fn weight(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(weight) if weight > 0.0 && weight <= WEIGHT_MAX => Ok(weight),
        _ => Err(format!(
            "{text:?} is no weight; write a number above 0, {WEIGHT_MAX} at most"
        )),
    }
}

/// Scheme and server, as HOST[:PORT].
type Origin = (&'static str, String);

/// That of a URL of HTTP.
fn origin_of(url: &Uri) -> Option<Origin> {
    let scheme = ["http", "https"]
        .into_iter()
        .find(|scheme| url.scheme_str() == Some(scheme));
    Some((scheme?, url.authority()?.to_string()))
}

/// The server, if it is said, and path and query.
fn parts(place: &str) -> Result<(Option<Origin>, String), String> {
    let help = || format!("{place:?} is neither a path nor a URL of scheme http or https");
    let uri: Uri = place.parse().map_err(|_| help())?;
    let is_path = place.starts_with('/') && uri.authority().is_none();
    let origin = origin_of(&uri);
    if !is_path && origin.is_none() {
        return Err(help());
    }
    Ok((origin, target_of(&uri)))
}

/// Whether these are one server; a scheme's own port may be said or not.
fn is_same(one: &str, other: &str, scheme: &str) -> bool {
    let port = if scheme == "https" { ":443" } else { ":80" };
    let bare = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    bare(one) == bare(other)
}

/// One of several requests each time, by weight.
pub struct Weighted {
    requests: Vec<Request>,
    table: WeightedAliasIndex<f64>,
    random: Pcg64Mcg,
    think: Duration,
    /// From a choice that is ours to the next one.
    step: u32,
}

impl Weighted {
    /// Requests and how often each, as many weights as requests; after the same time of thinking.
    ///
    /// # Panics
    ///
    /// There is none, or a weight is not above zero.
    pub fn new(requests: Vec<Request>, weights: Vec<f64>, seed: u64, think: Duration) -> Self {
        assert_eq!(requests.len(), weights.len(), "each has its weight");
        assert!(weights.iter().all(|&w| w > 0.0), "all are above zero");
        Self {
            requests,
            table: WeightedAliasIndex::new(weights).expect("there are some"),
            random: Pcg64Mcg::seed_from_u64(seed),
            think,
            step: 1,
        }
    }

    /// Of all choices, those of a part: what several cores choose together is what one would.
    pub fn part(mut self, part: Part) -> Self {
        self.choose(part.nth());
        self.step = part.of();
        self
    }

    /// The next of this many choices.
    fn choose(&mut self, count: u32) -> Option<u32> {
        let mut choices = (0..count).map(|_| self.table.sample(&mut self.random) as u32);
        let first = choices.next();
        choices.for_each(drop);
        first
    }
}

impl Driver for Weighted {
    fn requests(&self) -> &[Request] {
        &self.requests
    }

    fn first(&mut self, client: u32) -> Option<Task> {
        self.next(client).map(Task::at_once)
    }

    fn next(&mut self, _client: u32) -> Option<Task> {
        let request = self.choose(self.step)?;
        let think = self.think;
        Some(Task { request, think })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Content;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<List, String> {
        List::parse(text, None)
    }

    fn entry(weight: f64, target: &str) -> Entry {
        let target = target.to_owned();
        Entry { weight, target }
    }

    #[test]
    fn lines() {
        let text = "# all\r\n\nhttp://a.example\n10 /b?c # often\n\t.5  http://A.example:80/d#e\nhttp://a.example?f";
        let list = parse(text).unwrap();
        assert_eq!((list.scheme, &*list.authority), ("http", "a.example"));
        let entries = [
            entry(1.0, "/"),
            entry(10.0, "/b?c"),
            entry(0.5, "/d"),
            entry(1.0, "/?f"),
        ];
        assert_eq!(list.entries, entries);
        let server = "http://[fd00::1]:81/".parse().unwrap();
        let list = List::parse("/a\n/b", Some(&server)).unwrap();
        assert_eq!((&*list.authority, list.entries.len()), ("[fd00::1]:81", 2));
        let list = parse("https://a/\nhttps://a:443/b\n/c").unwrap();
        assert_eq!((list.scheme, list.entries.len()), ("https", 3));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, part) in [
            ("http://a/\nhttp://b/", "line 2", "another server"),
            ("http://a/\nhttp://a:81/", "line 2", "another server"),
            ("/a\n\n-1 /b", "line 3", "no weight"),
            ("inf /b", "line 1", "no weight"),
            ("nan /b", "line 1", "no weight"),
            ("0 /b", "line 1", "no weight"),
            ("1 /b c", "line 1", "too much"),
            ("5", "line 1", "no URL behind"),
            ("ftp://a/", "line 1", "scheme http"),
            ("http://a/\nhttps://a/", "line 2", "another server"),
            ("https://a/\nhttps://a:80/", "line 2", "another server"),
            ("a.html", "line 1", "neither a path"),
            ("", "no URL", "no URL"),
            ("# /a", "no URL", "no URL"),
            ("/a", "no line names", "http://HOST/"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(line) || error.contains(line), "{error}");
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    /// Chi-squared of a million draws, against the weights and against weights of which one is a tenth too high.
    #[test]
    fn each_as_often_as_its_weight() {
        let weights = [1.0, 10.0, 0.5, 100.0, 7.0, 7.0];
        let request = Request::new(&Content::get(&"http://h/".parse().unwrap()));
        let requests = vec![request; weights.len()];
        let mut driver = Weighted::new(requests, weights.to_vec(), 5, Duration::ZERO);
        let mut counts = [0u32; 6];
        (0..1_000_000).for_each(|_| counts[driver.next(0).unwrap().request as usize] += 1);
        let distance = |weights: &[f64; 6]| -> f64 {
            let all: f64 = weights.iter().sum();
            let terms = weights.iter().zip(counts).map(|(weight, count)| {
                let expected = weight / all * 1e6;
                (f64::from(count) - expected).powi(2) / expected
            });
            terms.sum()
        };
        // Five degrees of freedom: one in a thousand exceeds 20.5.
        assert!(distance(&weights) < 20.5, "{counts:?}");
        let mut wrong = weights;
        wrong[4] *= 1.1;
        assert!(distance(&wrong) > 100.0);
    }

    /// What several cores choose together is what one chooses.
    #[test]
    fn parts_make_the_whole() {
        let weighted = || {
            let requests =
                (0..3).map(|_| Request::new(&Content::get(&"http://h/".parse().unwrap())));
            Weighted::new(requests.collect(), vec![5.0, 3.0, 1.0], 7, Duration::ZERO)
        };
        let choices = |mut driver: Weighted, count| -> Vec<u32> {
            let first = driver.first(0);
            let others = (1..count).map(|_| driver.next(0));
            let all = first.into_iter().chain(others.flatten());
            all.map(|task| task.request).collect()
        };
        let whole = choices(weighted(), 999);
        for part in Part::all(4) {
            let its = choices(weighted().part(part), part.count(999));
            let wanted = (0..its.len() as u64).map(|place| whole[part.number(place) as usize]);
            assert!(its.iter().copied().eq(wanted), "{part:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_refused(text in "(?s).{0,200}") {
            let _ = parse(&text);
        }

        #[test]
        fn near_lists(text in "([0-9.# ]{0,4}(http://a|http://b|/|)[a-z/?#: \\[\\]]{0,6}\n){0,5}") {
            if let Ok(list) = parse(&text) {
                prop_assert!(list.entries.iter().all(|e| e.weight > 0.0 && e.target.starts_with('/')));
            }
        }

        #[test]
        fn what_is_written_is_read(lines in prop::collection::vec((0.001f64..1e6, "/[a-z0-9/]{0,9}"), 1..20)) {
            let text: String = lines.iter().map(|(w, t)| format!("{w} {t}\n")).collect();
            let list = List::parse(&text, Some(&"http://h/".parse().unwrap())).unwrap();
            let read: Vec<_> = list.entries.into_iter().map(|e| (e.weight, e.target)).collect();
            prop_assert_eq!(read, lines);
        }
    }
}
