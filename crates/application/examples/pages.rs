//! An application with pages of several kinds, as tests and measurements want them:
//! `cargo run -p exos-application --example pages -- /run/pages.sock`, and `exos serve DIR --application "/app/*=/run/pages.sock"`.
//!
//! | path behind the application's own | answer |
//! |---|---|
//! | `/kept/N` | a page of N bytes that is made once |
//! | `/fresh/N` | one that is made each time |
//! | `/template/N` | a kept head and foot, and N fresh bytes between |
//! | `/stream/N` | N bytes, some 10,000 at a time, without a length |
//! | `/broken/N` | N bytes of a stream that is then given up |
//! | `/echo` | the request's body |
//! | `/variables` | the variables of the request |
//! | `/status/N` | a status and nothing else |
//! | `/never` | none |
//! | `/end` | none: the application ends |
//! | `/fail` | it fails to make one |
//!
//! SIGTERM has it answer what was asked, and end.

use exos_application::{Application, Event, Head, RequestId};
use exos_iolite::{Aggregate, Error, Result, Shape};
use std::collections::{HashMap, HashSet};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes of a stream that are made at once: whole lines of a page.
const STREAM_PART: usize = 160 * LINE_LEN;

/// Bytes of a line.
const LINE_LEN: usize = 64;

/// The longest page: as much as the pool holds.
const PAGE_LEN_MAX: usize = 1 << 26;

/// How long what was asked may take when it is told to end.
const STOP_TIME: Duration = Duration::from_secs(60);

/// Pages that are kept, and the longest of them: a quarter of the pool at most. Others are made each time.
const KEPT_MAX: usize = 64;
const KEPT_LEN_MAX: usize = 1 << 18;

/// A page of this many bytes. Each line names the page, so none is another page's; other programs can make the same lines.
fn page(what: &str, whole: usize, len: usize) -> Vec<u8> {
    let line = format!(
        "{:.<63}\n",
        format!("/{what}/{whole} is what an application says ")
    );
    let mut page = line.into_bytes().repeat(len.div_ceil(LINE_LEN));
    page.truncate(len);
    page
}

/// A page that is made bit by bit.
struct Stream {
    len: usize,
    left: usize,
    /// It is given up in the end.
    is_broken: bool,
}

#[derive(Default)]
struct Pages {
    /// By their length: what was made once, and stays.
    kept: HashMap<usize, Aggregate>,
    streams: HashMap<RequestId, Stream>,
    /// Whose bodies come.
    bodies: HashSet<RequestId>,
}

impl Pages {
    fn kept(&mut self, application: &Application, len: usize) -> Result<Aggregate> {
        if let Some(kept) = self.kept.get(&len) {
            return Ok(kept.clone());
        }
        let made = application.pool().copy(&page("kept", len, len))?;
        if self.kept.len() < KEPT_MAX && len <= KEPT_LEN_MAX {
            self.kept.insert(len, made.clone());
        }
        Ok(made)
    }

    fn answer(&mut self, application: &mut Application, id: RequestId) -> Result<()> {
        let Some(request) = application.request(id) else {
            return Ok(());
        };
        let path = request.variable("PATH_INFO").unwrap_or_default();
        let path = String::from_utf8_lossy(path).into_owned();
        let mut parts = path.split('/').skip(1);
        let (what, number) = (parts.next().unwrap_or_default(), parts.next());
        let len: usize = number.and_then(|n| n.parse().ok()).unwrap_or(0);
        let len = len.min(PAGE_LEN_MAX);
        let head = Head::new(200).field("Content-Type", "text/plain");
        match what {
            "kept" => {
                let content = self.kept(application, len)?;
                application.begin(id, &head.length(len as u64));
                match self.kept.contains_key(&len) {
                    true => application.send_kept(id, content),
                    false => application.send(id, content),
                }
            }
            "fresh" => {
                let content = application.pool().copy(&page(what, len, len))?;
                application.begin(id, &head.length(len as u64));
                application.send(id, content);
            }
            "template" => {
                let (around, middle) = (
                    self.kept(application, 4000)?,
                    application.pool().copy(&page(what, len, len))?,
                );
                application.begin(id, &head.length((8000 + len) as u64));
                application.send_kept(id, around.clone());
                application.send(id, middle);
                application.send_kept(id, around);
            }
            "stream" | "broken" => {
                application.begin(id, &head);
                let (left, is_broken) = (len, what == "broken");
                let stream = Stream {
                    len,
                    left,
                    is_broken,
                };
                self.streams.insert(id, stream);
                return self.stream(application, id);
            }
            "echo" => {
                application.begin(id, &head);
                self.bodies.insert(id);
                return self.echo(application, id);
            }
            "variables" => {
                let lines = request
                    .variables()
                    .flat_map(|(name, value)| [name, b"=", value, b"\n"].concat());
                let content = application.pool().copy(&lines.collect::<Vec<u8>>())?;
                application.begin(id, &head);
                application.send(id, content);
            }
            "status" => application.begin(id, &Head::new(len.clamp(200, 599) as u16)),
            "never" => return Ok(()),
            "end" => std::process::exit(0),
            "fail" => {
                application.say(id, "it was told to fail");
                application.begin(id, &Head::new(500));
            }
            _ => application.begin(id, &Head::new(404)),
        }
        application.end(id);
        Ok(())
    }

    /// Goes on with a stream as far as there is room: a slow client has it wait.
    fn stream(&mut self, application: &mut Application, id: RequestId) -> Result<()> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        while stream.left > 0 && application.queued(id) < STREAM_PART {
            let part = STREAM_PART.min(stream.left);
            let made = application.pool().copy(&page("stream", stream.len, part));
            if matches!(made, Err(Error::Exhausted { .. })) {
                application.await_buffers(id);
                return Ok(());
            }
            application.send(id, made?);
            stream.left -= part;
        }
        let is_broken = stream.is_broken;
        if stream.left > 0 || is_broken && application.queued(id) > 0 {
            return Ok(());
        }
        self.streams.remove(&id);
        match is_broken {
            true => application.give_up(id),
            false => application.end(id),
        }
        Ok(())
    }

    fn echo(&mut self, application: &mut Application, id: RequestId) -> Result<()> {
        if !self.bodies.contains(&id) {
            return Ok(());
        }
        let bytes = application.read_body(id);
        application.send(id, application.pool().copy(&bytes)?);
        if application.body_is_whole(id) {
            self.bodies.remove(&id);
            application.end(id);
        }
        Ok(())
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let socket = std::env::args()
        .nth(1)
        .ok_or("write where to listen, as /run/pages.sock")?;
    let mut application = Application::listen(socket, Shape::of(1024))?;
    let (told, tells) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, tells)?;
    application.stop_on(told.into(), STOP_TIME)?;
    let mut pages = Pages::default();
    while !application.is_over() {
        let Some(event) = application.wait(None)? else {
            continue;
        };
        let (id, done) = match event {
            Event::Request(id) => (id, pages.answer(&mut application, id)),
            Event::Body(id) => (id, pages.echo(&mut application, id)),
            Event::Room(id) => (id, pages.stream(&mut application, id)),
            Event::Left(id) => {
                pages.streams.remove(&id);
                pages.bodies.remove(&id);
                (id, Ok(()))
            }
        };
        if let Err(error) = done {
            application.say(id, &error.to_string());
            // What has begun is cut off, what has not is 500.
            application.give_up(id);
        }
    }
    Ok(())
}
