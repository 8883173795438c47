//! Programs in C that are compiled against the header, linked with the library, and run.

use crate::common::{compile, folder};
use exos_application::asking::{Link, Part};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// What takes longer fails.
const LONG: Duration = Duration::from_secs(60);

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the header promises of misuse, and of sizes; with both libraries.
#[test]
fn misuse_is_an_error_and_no_more() {
    let work = tempfile::tempdir().expect("a folder");
    for is_shared in [true, false] {
        let program = work.path().join("misuse");
        if compile(&folder().join("tests/misuse.c"), &program, is_shared).is_none() {
            return;
        }
        let done = Command::new(&program)
            .arg(work.path().join("socket"))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "shared: {is_shared}: {said}");
        assert!(said.is_empty(), "{said}");
    }
}

fn connect(path: &Path) -> Link {
    let until = Instant::now() + LONG;
    loop {
        match Link::connect(path) {
            Ok(link) => return link,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The head and the content of an answer.
fn ask(link: &mut Link, path: &str, body: Option<&[u8]>) -> (String, Vec<u8>) {
    let variables = [&[9, path.len() as u8], &b"PATH_INFO"[..], path.as_bytes()].concat();
    let (mut head, mut content, until) = (String::new(), Vec::new(), Instant::now() + LONG);
    let request = link.reserve(0);
    link.ask(request, &variables, body.is_some());
    body.into_iter()
        .for_each(|body| link.send_body(request, body, true));
    loop {
        while let Some(part) = link.take(request) {
            match part {
                Part::Head(bytes) => head = String::from_utf8(bytes).expect("text"),
                Part::Bytes(bytes) => content.extend(bytes),
                Part::Slice(slice) => content.extend_from_slice(slice.as_bytes()),
                Part::Said(_) => {}
                Part::End => {
                    link.leave(request);
                    return (head, content);
                }
            }
        }
        assert!(
            Instant::now() < until && link.failure().is_none(),
            "{:?}",
            link.failure()
        );
        while link.poll().is_some() {}
        if !link.flush() {
            std::thread::sleep(Duration::from_micros(100));
        }
        link.look(true);
    }
}

/// The example, by a server's end of a link; `tests/fastcgi/shared.sh c` asks it over HTTP.
#[test]
fn the_example_answers_and_stops() {
    let work = tempfile::tempdir().expect("a folder");
    let (program, socket) = (work.path().join("pages"), work.path().join("socket"));
    if compile(&folder().join("examples/pages.c"), &program, true).is_none() {
        return;
    }
    let mut running = Running(
        Command::new(&program)
            .arg(&socket)
            .spawn()
            .expect("it runs"),
    );
    let mut link = connect(&socket);
    for kind in ["kept", "fresh", "stream"] {
        for len in [0, 1, 5000, 300_000] {
            let (head, content) = ask(&mut link, &format!("/{kind}/{len}"), None);
            assert!(
                head.starts_with("Status: 200\r\nContent-Type: text/plain\r\n"),
                "{head}"
            );
            let line = format!(
                "{:.<63}\n",
                format!("/{kind}/{len} is what an application says ")
            );
            assert!(
                content == line.bytes().cycle().take(len).collect::<Vec<u8>>(),
                "{kind} {len}"
            );
        }
    }
    assert!(link.kept_hits() == 0);
    ask(&mut link, "/template/100", None);
    // The same piece twice in it, and the first time it was new.
    assert_eq!(link.kept_hits(), 1);
    let body = vec![b'b'; 50_000];
    assert!(ask(&mut link, "/echo", Some(&body)).1 == body);
    assert_eq!(
        ask(&mut link, "/variables", None).1,
        b"PATH_INFO=/variables\n"
    );
    assert_eq!(ask(&mut link, "/nothing", None).0, "Status: 404\r\n\r\n");
    let id = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it is ours");
    let until = Instant::now() + LONG;
    while !link.is_stopping() {
        assert!(Instant::now() < until, "it does not stop");
        link.look(true);
        link.flush();
    }
    drop(link);
    assert!(running.0.wait().expect("it is ours").success());
}
