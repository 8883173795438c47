//! Links to applications that stop.

use super::*;
use crate::applications::pool::groups::Groups;
use exos_application::{Answer, Application, Event, Head};
use exos_iolite::Shape;

const SHAPE: Shape = Shape {
    buffer_len: 1 << 16,
    buffers: 16,
    share: 8,
};

/// What takes longer fails.
const LONG: std::time::Duration = std::time::Duration::from_secs(60);

struct World {
    links: Links,
    groups: Groups,
    path: SocketPath,
    now: Instant,
}

impl World {
    fn new(name: &str) -> World {
        let name = format!("exos-links-{}-{name}", std::process::id());
        World {
            links: Links::default(),
            groups: Groups::default(),
            path: std::env::temp_dir().join(name).as_path().into(),
            now: exos::clock::now(),
        }
    }

    fn begin(&mut self, client: u64) -> Result<(RequestId, bool), Errno> {
        let asks = Waiting {
            client: ConnectionId::from_bits(client),
            peer: None,
            connections: 1,
        };
        let group = self.groups.of(&Address::Shared(self.path.clone()));
        let time = Duration::from_secs(60);
        self.links.begin(&self.path, group, &asks, time, self.now)
    }

    /// Asks an application, which hears that.
    fn ask(&mut self, client: u64, application: &mut Application) -> (RequestId, Event) {
        let (request, _) = self.begin(client).expect("it listens");
        self.links.ask(request, b"", false);
        let until = std::time::Instant::now() + LONG;
        loop {
            self.links.flush();
            if let Some(event) = application
                .wait(Some(Default::default()))
                .expect("a socket")
            {
                return (request, event);
            }
            self.links.look(self.now);
            assert!(std::time::Instant::now() < until, "it hears nothing");
        }
    }

    /// Answers that have come on a request's link.
    fn answered(&self, request: RequestId) -> u64 {
        let linked = self.links.get(request.link);
        linked.expect("it has a request").link.answered()
    }

    /// Both have their turns until something holds.
    fn until(&mut self, application: &mut Application, holds: impl Fn(&World) -> bool) {
        let until = std::time::Instant::now() + LONG;
        while !holds(self) {
            application
                .wait(Some(Default::default()))
                .expect("a socket");
            self.links.look(self.now);
            self.links.flush();
            assert!(
                std::time::Instant::now() < until,
                "it does not come to that"
            );
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&*self.path);
    }
}

#[test]
fn one_that_stops_is_followed_by_another_and_two_that_do_by_none() {
    let mut world = World::new("stops");
    let mut stopped = Vec::new();
    for n in 0..2 {
        let mut application = Application::listen(&*world.path, SHAPE).expect("a socket");
        let (request, Event::Request(id)) = world.ask(n, &mut application) else {
            panic!("another event");
        };
        application.stop(LONG);
        world.until(&mut application, |world| {
            !world.links.all.iter().any(Linked::takes_requests)
        });
        assert_eq!(world.links.end_of(request), None);
        // It has not answered, so what follows it has to wait a moment.
        assert_eq!(world.begin(7), Err(Errno::AGAIN));
        world.now += LINK_REST_TIME_MAX;
        stopped.push((application, request, id));
    }
    let mut third = Application::listen(&*world.path, SHAPE).expect("a socket");
    assert_eq!(world.begin(7), Err(Errno::AGAIN));
    let (mut application, request, id) = stopped.remove(0);
    application.answer(id, Answer::new(Head::new(204)));
    world.until(&mut application, |world| world.answered(request) > 0);
    world.links.leave(request);
    // There is a place for another, and what comes of the second comes still.
    world.ask(7, &mut third);
    let (mut application, request, id) = stopped.remove(0);
    application.answer(id, Answer::new(Head::new(204)));
    world.until(&mut application, |world| world.answered(request) > 0);
    world.links.leave(request);
    world.until(&mut application, |_| true);
    assert_eq!(world.links.all.len(), 1);
}
