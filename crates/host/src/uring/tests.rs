use super::*;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::Write as _;
use tempfile::NamedTempFile;

fn ring() -> Option<FileRing> {
    let ring = FileRing::new(&[]);
    if let Err(e) = &ring {
        eprintln!("SKIPPED: no io_uring here: {e}");
    }
    ring.ok()
}

fn directory() -> Arc<OwnedFd> {
    let directory = File::open(std::env::temp_dir()).expect("there is one");
    Arc::new(directory.into())
}

/// A file of this many bytes, each a function of its place.
fn file(len: usize) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("made");
    let bytes: Vec<u8> = (0..len).map(byte).collect();
    file.write_all(&bytes).expect("written");
    file
}

fn opened(file: &NamedTempFile) -> Arc<OwnedFd> {
    Arc::new(file.reopen().expect("read").into())
}

fn byte(at: usize) -> u8 {
    (at * 7 + at / 251) as u8
}

/// All outcomes of these requests, by tag.
fn outcomes(ring: &mut FileRing, requests: Vec<Request>) -> Vec<Outcome> {
    let mut outcomes: Vec<Option<Outcome>> = requests.iter().map(|_| None).collect();
    let mut waiting = requests.into_iter().enumerate().peekable();
    while outcomes.iter().any(Option::is_none) {
        while ring.room() > 0
            && let Some((tag, request)) = waiting.next()
        {
            ring.queue(tag as u64, request);
        }
        ring.submit().expect("there is memory");
        let mut has_come = false;
        while let Some((tag, outcome)) = ring.poll() {
            outcomes[tag as usize] = Some(outcome);
            has_come = true;
        }
        if !has_come && !ring.wants_submit() {
            let fd = ring.fd();
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("polled");
        }
    }
    outcomes.into_iter().flatten().collect()
}

fn read(file: &Arc<OwnedFd>, offset: u64, len: usize) -> Request {
    let (file, buffer) = (file.clone(), vec![0; len + 3].into());
    Request::Read {
        file,
        offset,
        len,
        buffer,
    }
}

fn told(outcome: Outcome) -> Result<Vec<u8>, io::ErrorKind> {
    match outcome {
        Outcome::Read { buffer, read, .. } => read.map(|()| buffer.into()).map_err(|e| e.kind()),
        Outcome::Closed => Ok(Vec::new()),
        Outcome::Opened(opened) => opened.map(|_| Vec::new()).map_err(|e| e.kind()),
    }
}

/// More requests than the ring holds, over and beyond the end, give what waiting for each gives.
#[test]
fn reading_is_reading() {
    const LEN: usize = 1_000_003;
    let Some(mut ring) = ring() else { return };
    let file = opened(&file(LEN));
    let places: Vec<(u64, usize)> = (0..3 * REQUESTS_MAX)
        .map(|n| ((n * 7919) as u64, 1 + n * 997 % 65_536))
        .chain([
            (LEN as u64 - 5, 5),
            (LEN as u64 - 5, 6),
            (1 << 40, 1),
            (7, 0),
        ])
        .collect();
    let requests = places.iter().map(|&(at, len)| read(&file, at, len));
    let got = outcomes(&mut ring, requests.collect());
    for (outcome, (at, len)) in got.into_iter().zip(places) {
        let want = told(read(&file, at, len).perform());
        assert_eq!(told(outcome), want, "{len} from {at}");
        if at as usize + len <= LEN {
            let want = want.expect("within the file");
            assert!((0..len).all(|n| want[n] == byte(at as usize + n)));
            assert_eq!(want[len..], [0; 3], "nothing beyond what was asked for");
        }
    }
    assert_eq!(ring.room(), REQUESTS_MAX);
}

#[test]
fn opening_stays_below_the_directory() {
    let Some(mut ring) = ring() else { return };
    let file = file(1);
    let path = file.path();
    let link = path.with_extension("link");
    std::os::unix::fs::symlink(path, &link).expect("linked");
    let name = |path: &std::path::Path| {
        path.file_name()
            .expect("a name")
            .to_str()
            .expect("text")
            .to_owned()
    };
    let names = [
        name(path),
        name(&link),
        "../etc".into(),
        "/etc".into(),
        "none-such".into(),
    ];
    let open = |name: &String| Request::Open {
        root: directory(),
        path: CString::new(name.as_str()).expect("text"),
    };
    let got = outcomes(&mut ring, names.iter().map(open).collect());
    for (n, outcome) in got.into_iter().enumerate() {
        let outcome = told(outcome);
        assert_eq!(outcome.is_ok(), n == 0, "{}", names[n]);
        assert_eq!(outcome, told(open(&names[n]).perform()), "{}", names[n]);
    }
    std::fs::remove_file(link).expect("removed");
}

/// A ring may go while the kernel writes: nothing of what it writes to is freed.
#[test]
fn a_ring_may_go_with_requests_under_way() {
    let file = opened(&file(1 << 20));
    for _ in 0..20 {
        let Some(mut ring) = ring() else { return };
        (0..8).for_each(|n| ring.queue(n, read(&file, n << 17, 1 << 17)));
        ring.submit().expect("there is memory");
    }
}

/// The other end of a pipe hears when a descriptor is closed.
#[test]
fn closing_is_closing() {
    let Some(mut ring) = ring() else { return };
    let (reader, writer) = rustix::pipe::pipe().expect("made");
    let fcntl = rustix::pipe::PipeFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::from_bits_retain(fcntl.bits()))
        .expect("set");
    assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Err(Errno::AGAIN));
    let outcome = outcomes(&mut ring, vec![Request::Close { file: writer }]);
    assert!(matches!(outcome[..], [Outcome::Closed]));
    // The kernel may let the descriptor's file go after it has said so.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while rustix::io::read(&reader, &mut [0; 1]) != Ok(0) {
        assert!(std::time::Instant::now() < limit, "the pipe is open still");
        std::thread::yield_now();
    }
}
