//! `exos cat` at both ends of a wire in memory, its standard streams in memory too.

use crate::common;

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{World, server};
use exos_inet::tcp::{ListenOptions, Reason};
use exos_tools::cat::{Cat, Streams, Verdict};

/// A standard output that keeps what was written, and fails after this many bytes.
#[derive(Clone)]
struct Output {
    written: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Output {
    fn new(room: usize) -> Self {
        Self {
            written: Arc::default(),
            room,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.written.lock().unwrap().clone()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.written.lock().unwrap();
        if written.len() + bytes.len() > self.room {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A standard input that breaks at its end.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn pair(world: &mut World) -> (Cat, Cat) {
    let listener = world.server.tcp.listen(None, 7, ListenOptions::default());
    let listening = Cat::listening(listener.unwrap(), world.now);
    let id = world.connect(7);
    (Cat::connecting(id, server(7), world.now), listening)
}

/// How long the streams' threads may take, on a machine that may do other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// Until both have ended. The streams' threads run in real time, the wire does not: so each step waits a little.
fn run(world: &mut World, cats: &mut (Cat, Cat), streams: &mut (Streams, Streams)) {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        world.run(Duration::from_millis(1), |w| {
            cats.0.handle(w.now, &mut w.client, &mut streams.0);
            cats.1.handle(w.now, &mut w.server, &mut streams.1);
        });
        if cats.0.verdict().is_some() && cats.1.verdict().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    while begin.elapsed() < PATIENCE {
        if streams.0.is_written() && streams.1.is_written() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the outputs were not written in time");
}

fn text(len: usize, step: usize) -> Vec<u8> {
    (0..len).map(|n| (n * step / 7) as u8).collect()
}

#[test]
fn both_directions_are_delivered_whole() {
    let mut world = World::new();
    let mut cats = pair(&mut world);
    let (here, there) = (text(5_000_000, 3), text(3_000_000, 5));
    let outputs = [Output::new(usize::MAX), Output::new(usize::MAX)];
    let mut streams = (
        Streams::start(io::Cursor::new(here.clone()), outputs[0].clone()).unwrap(),
        Streams::start(io::Cursor::new(there.clone()), outputs[1].clone()).unwrap(),
    );
    run(&mut world, &mut cats, &mut streams);
    assert_eq!(cats.0.verdict(), Some(Verdict::Done));
    assert_eq!(cats.1.verdict(), Some(Verdict::Done));
    assert!(outputs[0].bytes() == there && outputs[1].bytes() == here);
    assert_eq!(cats.0.moved(), (5_000_000, 3_000_000));
    assert_eq!(cats.1.moved(), (3_000_000, 5_000_000));
    assert!(streams.0.take_error().is_none() && streams.1.take_error().is_none());
}

/// One end has nothing to say: its half is closed at once, and it still gets everything.
#[test]
fn an_empty_input_closes_its_half_only() {
    let mut world = World::new();
    let mut cats = pair(&mut world);
    let there = text(2_000_000, 11);
    let outputs = [Output::new(usize::MAX), Output::new(usize::MAX)];
    let mut streams = (
        Streams::start(io::empty(), outputs[0].clone()).unwrap(),
        Streams::start(io::Cursor::new(there.clone()), outputs[1].clone()).unwrap(),
    );
    run(&mut world, &mut cats, &mut streams);
    assert_eq!(cats.0.verdict(), Some(Verdict::Done));
    assert!(outputs[0].bytes() == there[..outputs[0].bytes().len()]);
    assert_eq!(outputs[1].bytes(), b"");
}

#[test]
fn an_output_that_nobody_takes_ends_the_connection() {
    let mut world = World::new();
    let mut cats = pair(&mut world);
    let mut streams = (
        Streams::start(io::Cursor::new(text(9_000_000, 2)), Output::new(0)).unwrap(),
        Streams::start(io::empty(), Output::new(100_000)).unwrap(),
    );
    run(&mut world, &mut cats, &mut streams);
    let Some(Verdict::Failed(_, Reason::Reset)) = cats.0.verdict() else {
        panic!("{:?}", cats.0.verdict());
    };
    let error = streams.1.take_error().expect("the output failed");
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

/// It is no end of the input, which the peer would take for the end of a whole message.
#[test]
fn an_input_that_breaks_is_told() {
    let mut world = World::new();
    let (mut cat, mut other) = pair(&mut world);
    let mut streams = Streams::start(Broken, Output::new(0)).unwrap();
    let mut others = Streams::start(io::empty(), Output::new(0)).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        world.run(Duration::from_millis(1), |w| {
            cat.handle(w.now, &mut w.client, &mut streams);
            other.handle(w.now, &mut w.server, &mut others);
        });
        if cat.verdict().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    let kind = io::ErrorKind::PermissionDenied;
    assert_eq!(cat.verdict(), Some(Verdict::Input(kind)));
    assert_ne!(other.verdict(), Some(Verdict::Done));
}
