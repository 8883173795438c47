//! A driver of one's own: customers of a shop, who look at its first page, then at some articles, and buy one at times.
//!
//! ```text
//! cargo run --release -p exos-webswamp --example shop -- http://10.10.0.10/ --link xdp:wire --address 10.10.0.20/24 -c 100
//! ```
//!
//! All options of `exos load` are there, but for those that are drivers themselves. What is needed is a table of requests,
//! and for each customer an answer to the question what comes next.

use std::time::Duration;

use clap::Parser as _;
use exos_host::Error;
use exos_inet::Part;
use exos_webswamp::driver::{Driver, Task};
use exos_webswamp::request::{Content, Request};
use exos_webswamp::{LoadArgs, load_with};

/// Articles that the shop has.
const ARTICLES: u32 = 20;

/// Where requests are in the table: the first page, an order, and the articles from there on.
const FIRST: u32 = 0;
const ORDER: u32 = 1;
const ARTICLE: u32 = 2;

/// Customers, and how many pages each has looked at since they came in. Where the load is on several cores, each has a shop for
/// its part of them.
struct Shop {
    requests: Vec<Request>,
    seen: Vec<u32>,
    part: Part,
}

impl Shop {
    /// The shop of a server: `content` is a request as the command line has it, with its host and its fields.
    fn new(content: &Content, part: Part) -> Self {
        let get = |target: String| {
            let content = content.clone();
            Request::new(&Content { target, ..content })
        };
        let order = Request::new(&Content {
            method: "POST".to_owned(),
            target: "/order".to_owned(),
            body: Some(b"article=7".to_vec()),
            ..content.clone()
        });
        let mut requests = vec![get("/".to_owned()), order];
        requests.extend((0..ARTICLES).map(|n| get(format!("/article/{n}"))));
        Self {
            requests,
            seen: Vec::new(),
            part,
        }
    }
}

impl Driver for Shop {
    fn requests(&self) -> &[Request] {
        &self.requests
    }

    fn next(&mut self, client: u32) -> Option<Task> {
        let who = client as usize;
        if who >= self.seen.len() {
            self.seen.resize(who + 1, 0);
        }
        let seen = self.seen[who];
        self.seen[who] = (seen + 1) % 5;
        // Comes in, looks at three articles, and buys; every other one leaves without.
        let number = self.part.number(client.into()) as u32;
        let request = match seen {
            0 => FIRST,
            4 if number.is_multiple_of(2) => ORDER,
            n => ARTICLE + (number + n) % ARTICLES,
        };
        let think = Duration::from_millis(if seen == 0 { 2000 } else { 500 });
        Some(Task { request, think })
    }
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    load: LoadArgs,
}

fn main() -> Result<(), Error> {
    let line = Line::parse();
    let results = load_with(&line.load, |content, part| {
        Box::new(Shop::new(content, part))
    })?;
    print!("{}", results.text());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn customers() {
        let content = Content::get(&"http://shop/".parse().unwrap());
        let mut shop = Shop::new(&content, Part::WHOLE);
        let mut visit = |client| -> Vec<u32> {
            let tasks = (0..5).map(|_| shop.next(client).expect("a shop never closes"));
            tasks.map(|task| task.request).collect()
        };
        assert_eq!(
            visit(0),
            [FIRST, ARTICLE + 1, ARTICLE + 2, ARTICLE + 3, ORDER]
        );
        assert_eq!(visit(1)[4], ARTICLE + 5);
        assert_eq!(visit(0)[0], FIRST);
        assert_eq!(shop.requests().len() as u32, ARTICLE + ARTICLES);
    }

    #[test]
    fn customers_on_another_core() {
        let content = Content::get(&"http://shop/".parse().unwrap());
        let mut shop = Shop::new(&content, Part::new(1, 2));
        let tasks = (0..2).map(|_| shop.next(0).expect("a shop never closes"));
        let requests: Vec<u32> = tasks.map(|task| task.request).collect();
        assert_eq!(requests, [FIRST, ARTICLE + 2]);
    }
}
