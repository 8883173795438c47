//! nginx beside us, where it is installed: on a port of the loopback interface, with a configuration of its own in a
//! temporary folder.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A running nginx; stopped when dropped.
pub struct Nginx {
    process: Child,
    folder: PathBuf,
    address: SocketAddr,
    pub version: String,
}

/// After this long without a word nginx has said all, if it has said anything.
const SILENCE: Duration = Duration::from_millis(150);

/// How long to wait for what must come, on a machine that may do other things.
const PATIENCE: Duration = Duration::from_secs(60);

impl Nginx {
    /// Starts nginx in a folder of its own, which `prepare` fills for a port; `None` where it is not installed.
    pub fn start(mut prepare: impl FnMut(&Path, u16)) -> Option<Nginx> {
        let program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
        let program = program.into_iter().find(|path| Path::new(path).exists())?;
        let version = Command::new(program).arg("-v").output().ok()?.stderr;
        let version = String::from_utf8_lossy(&version).into_owned();
        static STARTED: Mutex<u32> = Mutex::new(0);
        // One after the other, so that no two find the same port free.
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        *started += 1;
        let name = format!("exos-nginx-{}-{started}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let (process, address) = (0..10)
            .find_map(|_| attempt(program, &folder, &mut prepare))
            .expect("a port that stays free");
        Some(Nginx {
            process,
            folder,
            address,
            version,
        })
    }

    /// Fails if there is anything in which it does not do as we do.
    pub fn assert_none(&self, surprises: &[String]) {
        assert!(
            surprises.is_empty(),
            "{}\n{}",
            self.version,
            surprises.join("\n")
        );
    }

    /// What nginx answers a request on a connection of its own with, until it closes, or falls silent when the answer
    /// is the one that is wanted.
    pub fn answer(&self, request: impl AsRef<[u8]>, is_wanted: impl Fn(&str) -> bool) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        stream.write_all(request.as_ref()).unwrap();
        let text = |answer: &[u8]| String::from_utf8_lossy(answer).into_owned();
        let (begin, mut answer, mut part) = (Instant::now(), Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut part) {
                Ok(0) => break,
                Ok(len) => answer.extend_from_slice(&part[..len]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if is_wanted(&text(&answer)) || begin.elapsed() > PATIENCE {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        text(&answer)
    }

    /// All that nginx answers a stream of requests with, of which it is told that there will be no more.
    pub fn whole_answer(&self, requests: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // It may have closed before it has taken all: what it has said until then is its answer.
        let _ = stream.write_all(requests);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }
}

/// Starts nginx on a port that is free just now. None where others had it before.
fn attempt(
    program: &str,
    folder: &Path,
    mut prepare: impl FnMut(&Path, u16),
) -> Option<(Child, SocketAddr)> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let address = free.expect("loopback has free ports");
    prepare(folder, address.port());
    let mut process = Command::new(program)
        .args(["-e", "error.log", "-c", "nginx.conf", "-p"])
        .arg(folder)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It says which process it is when it listens.
    let pid = folder.join("nginx.pid");
    let deadline = Instant::now() + PATIENCE;
    while !pid.exists() || TcpStream::connect(address).is_err() {
        if process.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(Instant::now() < deadline, "nginx did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some((process, address))
}

/// A request, our answers, and nginx's with the reason if they differ.
pub struct Case<T: ?Sized + 'static> {
    pub request: &'static T,
    pub ours: &'static [u16],
    pub nginx: Option<(&'static [u16], &'static str)>,
}

pub const fn same<T: ?Sized>(request: &'static T, ours: &'static [u16]) -> Case<T> {
    Case {
        request,
        ours,
        nginx: None,
    }
}

pub const fn differs<T: ?Sized>(
    request: &'static T,
    ours: &'static [u16],
    nginx: &'static [u16],
    why: &'static str,
) -> Case<T> {
    Case {
        request,
        ours,
        nginx: Some((nginx, why)),
    }
}

/// The status codes in an answer.
pub fn statuses(answer: &str) -> Vec<u16> {
    if !answer.is_empty() && !answer.starts_with("HTTP/") {
        return vec![200]; // HTTP/0.9 has no status line.
    }
    let starts = answer.match_indices("HTTP/1.1 ");
    starts
        .filter_map(|(at, _)| answer.get(at + 9..at + 12)?.parse().ok())
        .collect()
}

/// Writes a configuration with some servers.
pub fn configure(folder: &Path, servers: &str) {
    let configuration = format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{}}\nhttp {{\n\
         access_log off;\nclient_body_temp_path body;\nproxy_temp_path proxy;\n\
         fastcgi_temp_path fastcgi;\nuwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n\
         types {{ text/html html; text/plain txt; }}\n{servers}\n}}\n"
    );
    fs::write(folder.join("nginx.conf"), configuration).unwrap();
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
