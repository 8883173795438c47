//! User equivalents: clients that ask for a page, then one after the other for the files embedded in it, and then read.

use super::documents::{self, Documents};
use super::parameters::Distributions;
use super::stream::Stream;
use crate::driver::{Driver, Task};
use crate::request::{Content, Request};
use exos_inet::Part;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;

/// The driver.
pub struct Users {
    requests: Vec<Request>,
    /// Where the files of each page begin among the requests, and at last where they end.
    pages: Vec<u32>,
    stream: Stream,
    /// From a page of the stream that is ours to the next one.
    step: u32,
    /// What each user has yet to ask for of their page.
    users: Vec<std::ops::Range<u32>>,
    distributions: Distributions,
    random: Pcg64Mcg,
}

impl Users {
    /// Users of these documents, which lie in a folder of the server: that of the content's target, which ends with /.
    pub fn new(set: &Documents, content: &Content, seed: u64) -> Self {
        let mut requests = Vec::new();
        let mut pages = vec![0];
        for (page, sizes) in (1..).zip(set.pages()) {
            for file in 0..sizes.len() {
                let target = format!("{}{}", content.target, documents::name(page, file));
                requests.push(Request::new(&Content {
                    target,
                    ..content.clone()
                }));
            }
            pages.push(requests.len() as u32);
        }
        Self {
            requests,
            pages,
            stream: Stream::new(set.requests(), seed),
            step: 1,
            users: Vec::new(),
            distributions: Distributions::published(),
            random: Pcg64Mcg::seed_from_u64(!seed),
        }
    }

    /// A part of the users: the pages that those of all parts ask for are one stream, of which each has every n-th. When
    /// they ask is chance that no other part has.
    pub fn part(mut self, part: Part) -> Self {
        self.pass(part.nth());
        self.step = part.of();
        // Farther than any part goes.
        self.random.advance(u128::from(part.nth()) << 64);
        self
    }

    /// The next page.
    fn page(&mut self) -> usize {
        let page = self.stream.take();
        self.pass(self.step - 1);
        page as usize
    }

    /// This many pages are others'.
    fn pass(&mut self, count: u32) {
        for _ in 0..count {
            self.stream.take();
        }
    }
}

impl Driver for Users {
    fn requests(&self) -> &[Request] {
        &self.requests
    }

    fn next(&mut self, client: u32) -> Option<Task> {
        let client = client as usize;
        if client >= self.users.len() {
            self.users.resize(client + 1, 0..0);
        }
        if let Some(request) = self.users[client].next() {
            let think = self.distributions.active_off(&mut self.random);
            return Some(Task { request, think });
        }
        let page = self.page();
        let user = &mut self.users[client];
        *user = self.pages[page]..self.pages[page + 1];
        let request = user.next().expect("a page has a file");
        let think = self.distributions.inactive_off(&mut self.random);
        Some(Task { request, think })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::request::Position;

    fn users(list: &str) -> Users {
        let content = Content::get(&"http://h/set/".parse().unwrap());
        Users::new(&Documents::parse(list).unwrap(), &content, 1)
    }

    /// What the users of several cores ask for is one stream: taken in turns, its pages are those of one core's users.
    #[test]
    fn of_several_cores_ask_for_one_stream() {
        let list = "9\n".repeat(50);
        let pages = |users: &mut Users, count| -> Vec<u32> {
            let tasks = (0..count).map(|n| users.next(n % 5).unwrap());
            tasks.map(|task| task.request).collect()
        };
        let whole = pages(&mut users(&list), 600);
        for part in Part::all(3) {
            let its = pages(&mut users(&list).part(part), 200);
            for (place, page) in its.into_iter().enumerate() {
                assert_eq!(page, whole[part.number(place as u64) as usize]);
            }
        }
    }

    /// When they ask is not the same chance twice.
    #[test]
    fn of_several_cores_are_not_in_step() {
        let thinks = |part| -> Vec<Duration> {
            let mut users = users("9\n").part(part);
            (0..50).map(|_| users.next(0).unwrap().think).collect()
        };
        let [first, second] = [0, 1].map(|nth| thinks(Part::new(nth, 2)));
        assert!(first.iter().zip(&second).all(|(one, other)| one != other));
        assert_eq!(thinks(Part::WHOLE), thinks(Part::WHOLE));
    }

    fn target(users: &Users, request: u32) -> String {
        let bytes = users.requests()[request as usize].bytes(Position::Between);
        let text = String::from_utf8(bytes.as_bytes().to_vec()).unwrap();
        text.split(' ').nth(1).unwrap().to_owned()
    }

    /// Each user asks for whole pages: the base file after an inactive OFF time, the others after active ones.
    #[test]
    fn ask_for_pages() {
        let mut users = users("9 9 9\n9\n9 9\n");
        let mut got = vec![Vec::new(); 3];
        for turn in 0..3000 {
            // Users are not in step.
            let client = [0, 1, 0, 2, 2, 1, 0][turn % 7];
            let task = users.next(client).unwrap();
            got[client as usize].push((target(&users, task.request), task.think));
        }
        for asked in got {
            let mut asked = asked.into_iter().peekable();
            while let Some((base, inactive)) = asked.next() {
                assert!(inactive >= Duration::from_secs(1), "{base} {inactive:?}");
                let embedded = match base.as_str() {
                    "/set/1" => 2,
                    "/set/2" => 0,
                    _ => 1,
                };
                for embedded in 1..=embedded {
                    let Some((next, _)) = asked.next() else { break };
                    assert_eq!(next, format!("{base}.{embedded}"));
                }
            }
        }
    }
}
