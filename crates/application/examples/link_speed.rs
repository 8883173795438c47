//! What a request over a link costs both its ends, in one thread: `cargo run --release -p exos-application --example link_speed`, and the same
//! under callgrind for instructions. Of what wakes either end there is as much as without anybody asleep: nothing.
//!
//! Prints nanoseconds per request, the best of several runs, for pages that are kept and made each time, one and 32 at once.

use exos_application::asking::Link;
use exos_application::{Answer, Application, Event, Head};
use exos_iolite::{Aggregate, Shape};
use std::time::{Duration, Instant};

const RUNS: usize = 7;
const REQUESTS: usize = 20_000;

/// Variables in FastCGI's form, as a browser's request has them.
fn variables() -> Vec<u8> {
    let mut out = Vec::new();
    for n in 0..24 {
        let (name, value) = (format!("HTTP_VARIABLE_{n}"), "v".repeat(1 + 3 * n % 60));
        out.extend([name.len() as u8, value.len() as u8]);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(value.as_bytes());
    }
    out.extend_from_slice(b"\x09\x06PATH_INFO/hello");
    out
}

struct Both {
    application: Application,
    link: Link,
    page: Aggregate,
    is_kept: bool,
}

impl Both {
    /// Answers what has come.
    fn answer(&mut self) {
        let none = Some(Duration::ZERO);
        while let Some(event) = self.application.wait(none).expect("it listens") {
            if let Event::Request(id) = event {
                let request = self.application.request(id).expect("it has come");
                assert!(request.variable("PATH_INFO").is_some());
                let answer = Answer::new(Head::new(200).field("Content-Type", "text/html"));
                let answer = match self.is_kept {
                    true => answer.kept(self.page.clone()),
                    false => answer.fresh(
                        self.application
                            .pool()
                            .copy(&[7; 1024])
                            .expect("a buffer is left"),
                    ),
                };
                self.application.answer(id, answer);
            }
        }
    }

    /// As many requests as these at once, answered whole.
    fn turn(&mut self, variables: &[u8], count: usize) {
        let reserve = |_| self.link.reserve(0).expect("there are few");
        let asked: Vec<u32> = (0..count).map(reserve).collect();
        let ask = |number: &u32| self.link.ask(*number, variables, false);
        asked.iter().for_each(ask);
        self.link.flush();
        let mut left = asked;
        while !left.is_empty() {
            self.answer();
            self.link.look(true);
            while self.link.poll().is_some() {}
            left.retain(|&number| {
                while let Some(part) = self.link.take(number) {
                    if part.is_last {
                        self.link.leave(number);
                        return false;
                    }
                }
                true
            });
        }
        self.link.flush();
    }
}

fn main() {
    let path = std::env::temp_dir().join(format!("link-speed-{}.sock", std::process::id()));
    let variables = variables();
    for (is_kept, count) in [(true, 1), (true, 32), (false, 1), (false, 32)] {
        let application = Application::listen(&path, Shape::of(256)).expect("a socket");
        let page = application.pool().copy(&[b'x'; 1024]).expect("room");
        let link = Link::connect(&path).expect("it listens");
        let mut both = Both {
            application,
            link,
            page,
            is_kept,
        };
        both.turn(&variables, 1);
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let begun = Instant::now();
            (0..REQUESTS / count).for_each(|_| both.turn(&variables, count));
            best = best.min(begun.elapsed().as_nanos() as f64 / REQUESTS as f64);
        }
        let kind = if is_kept { "kept" } else { "fresh" };
        println!("{kind:<6} {count:>3} at once {best:>8.0} ns");
        drop(both);
        let _ = std::fs::remove_file(&path);
    }
}
