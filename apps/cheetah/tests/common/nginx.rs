//! nginx beside us, where it is installed: on a port of the loopback interface, with a configuration of its own in a
//! temporary folder.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running nginx; stopped when dropped.
pub struct Nginx {
    process: Child,
    folder: PathBuf,
    address: SocketAddr,
    pub version: String,
}

impl Nginx {
    /// Starts nginx in a folder of its own, which `prepare` fills for a port; `None` where it is not installed.
    pub fn start(prepare: impl FnOnce(&Path, u16)) -> Option<Nginx> {
        let program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
        let program = program.into_iter().find(|path| Path::new(path).exists())?;
        let version = Command::new(program).arg("-v").output().ok()?.stderr;
        let folder = std::env::temp_dir().join(format!("exos-nginx-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .ok()?
            .local_addr()
            .ok()?
            .port();
        prepare(&folder, port);
        let process = Command::new(program)
            .args(["-e", "error.log", "-c", "nginx.conf", "-p"])
            .arg(&folder)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let version = String::from_utf8_lossy(&version).into_owned();
        let nginx = Nginx {
            process,
            folder,
            address,
            version,
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "nginx did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(nginx)
    }

    /// What nginx answers a request on a connection of its own with, until it closes or falls silent.
    pub fn answer(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(150)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer); // Ends by silence where it does not close.
        String::from_utf8_lossy(&answer).into_owned()
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
