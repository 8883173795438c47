//! Programs in C that are compiled against the header, linked with the library, and run.

use crate::common::{compile, folder};
use exos_application::asking::{Content, Link};
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

/// A program with the library that it was linked with: cargo's path for libraries has one of an earlier build, perhaps.
fn program_of_c(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_remove("LD_LIBRARY_PATH");
    command
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
        let done = program_of_c(&program)
            .arg(work.path().join("socket"))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "shared: {is_shared}: {said}");
        assert!(said.is_empty(), "{said}");
    }
}

/// The same of a request that lives.
#[test]
fn misuse_of_a_request_is_an_error_and_no_more() {
    let work = tempfile::tempdir().expect("a folder");
    let (program, socket) = (work.path().join("misuse"), work.path().join("socket"));
    if compile(&folder().join("tests/misuse.c"), &program, true).is_none() {
        return;
    }
    let running = program_of_c(&program).arg(&socket).arg("live").spawn();
    let mut running = Running(running.expect("it runs"));
    let mut link = connect(&socket);
    let (head, length, content) = ask(&mut link, "/live", Some(b"abc"));
    assert_eq!(head, "Status: 200\r\nA: b\r\n\r\n");
    assert_eq!((length, &*content), (Some(1), &b"x"[..]));
    drop(link);
    assert!(running.0.wait().expect("it is ours").success());
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

/// The head of an answer, the length that is said beside it, and the content.
fn ask(link: &mut Link, path: &str, body: Option<&[u8]>) -> (String, Option<u32>, Vec<u8>) {
    let variables = [&[9, path.len() as u8], &b"PATH_INFO"[..], path.as_bytes()].concat();
    let (mut head, mut length, mut content) = (String::new(), None, Vec::new());
    let until = Instant::now() + LONG;
    let request = link.reserve(0).expect("there are few");
    link.ask(request, &variables, body.is_some());
    body.into_iter()
        .for_each(|body| link.send_body(request, body, true));
    loop {
        while let Some(part) = link.take(request) {
            if let Some(it) = part.head {
                head = String::from_utf8(it.bytes.to_vec()).expect("text");
                length = it.length;
            }
            match part.content {
                Some(Content::Bytes(bytes)) => content.extend(bytes),
                Some(Content::Slice(slice)) => content.extend_from_slice(slice.as_bytes()),
                None => {}
            }
            if part.is_last {
                link.leave(request);
                return (head, length, content);
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
        program_of_c(&program)
            .arg(&socket)
            .spawn()
            .expect("it runs"),
    );
    let mut link = connect(&socket);
    for kind in ["kept", "fresh", "stream"] {
        for len in [0, 1, 5000, 300_000] {
            let (head, length, content) = ask(&mut link, &format!("/{kind}/{len}"), None);
            assert!(length.is_none_or(|length| length as usize == len));
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
    assert!(ask(&mut link, "/echo", Some(&body)).2 == body);
    assert_eq!(
        ask(&mut link, "/variables", None).2,
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
