//! Bodies of HTTP/2 requests that an application does not take, in virtual time.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use exos_cheetah::Site;
use exos_cheetah::applications::rules::{Rule, Scope};
use exos_cheetah::applications::{Address, Application, Place, Rules};
use exos_cheetah::site::Settings;
use exos_http2::frame::{kind, payload};
use exos_http2::limits::{CONNECTION_WINDOW, DEFAULT_WINDOW, STREAM_WINDOW};

use super::http2_life::{begin, counter, frames, secs};
use crate::common::frames::{framed, request};
use crate::common::visit::Visit;

/// As many bodies as take all of a connection's window.
const BODIES: u32 = CONNECTION_WINDOW / STREAM_WINDOW;

/// A client that sends bodies as far as windows let it.
struct Client {
    visit: Visit,
    /// What it may send on each stream, and on all together.
    rooms: Vec<u32>,
    room: u32,
    /// Frames that it has looked at.
    heard: usize,
    /// Streams with an answer.
    answered: Vec<u32>,
}

impl Client {
    fn new(site: Site) -> Client {
        let mut visit = Visit::new(site, |_| {});
        let mut bytes = begin(1 << 20);
        for n in 0..BODIES {
            let length = [("content-length", "100000000")];
            bytes.extend(request(2 * n + 1, "POST", "/", &length, false));
        }
        visit.ask("10.0.0.1", &bytes);
        Client {
            visit,
            rooms: vec![STREAM_WINDOW; BODIES as usize],
            room: DEFAULT_WINDOW,
            heard: 0,
            answered: Vec::new(),
        }
    }

    /// Hears of windows and resets; true when there was something.
    fn hear(&mut self) -> bool {
        let all = frames(&self.visit);
        let before = std::mem::replace(&mut self.heard, all.len());
        for (head, bytes) in &all[before..] {
            let place = (head.stream / 2) as usize;
            match (head.kind, head.stream) {
                (kind::WINDOW_UPDATE, 0) => self.room += payload::window_update(bytes).unwrap(),
                (kind::WINDOW_UPDATE, _) => {
                    self.rooms[place] += payload::window_update(bytes).unwrap();
                }
                (kind::HEADERS, stream) => self.answered.push(stream),
                _ => {}
            }
        }
        before < all.len()
    }

    /// Sends a frame of each body that may be sent; false when there is none.
    fn send(&mut self) -> bool {
        let mut has_sent = false;
        for (n, room) in self.rooms.iter_mut().enumerate() {
            let len = (*room).min(self.room).min(16_384);
            if len > 0 {
                let bytes = vec![b'x'; len as usize];
                self.visit
                    .say(0, &framed(kind::DATA, 0, 2 * n as u32 + 1, &bytes));
                *room -= len;
                self.room -= len;
                has_sent = true;
            }
        }
        has_sent
    }
}

/// Bodies that nobody takes have their time: then the longest goes, and the others have its room.
#[test]
fn bodies_that_nobody_takes_have_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // It hears, and never reads.
    let _listener = UnixListener::bind(&path).unwrap();
    let mut application = Application::at(Address::Fastcgi(Place::Unix(path.as_path().into())));
    application.timeout = Duration::from_secs(3600);
    application.body_max = 1 << 30;
    let settings = Settings {
        applications: Rules::new(vec![Rule {
            scope: Scope::path("/*").unwrap(),
            application: Arc::new(application),
        }]),
        ..Settings::default()
    };
    let mut client = Client::new(Site::with(Arc::new(settings)));
    loop {
        client.visit.run(Duration::from_millis(50), 1 << 20);
        let has_heard = client.hear();
        if !client.send() && !has_heard {
            break;
        }
    }
    assert_eq!((client.room, &client.answered[..]), (0, &[][..]));
    assert!(
        client.rooms.iter().all(|room| *room == 0),
        "{:?}",
        client.rooms
    );
    client.visit.run(secs(59), 1 << 20);
    assert_eq!(counter(&client.visit, "http2_stalled_bodies"), 0);
    client.visit.run(secs(3), 1 << 20);
    assert_eq!(counter(&client.visit, "http2_stalled_bodies"), 1);
    client.hear();
    assert_eq!(client.answered, [1]);
    assert_eq!(client.room, STREAM_WINDOW);
    assert_eq!(counter(&client.visit, "fastcgi_timeouts"), 1);
    // While there is room, nothing else goes.
    client.visit.run(secs(100), 1 << 20);
    assert_eq!(counter(&client.visit, "http2_stalled_bodies"), 1);
}
