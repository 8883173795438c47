//! A question over a forwarder's control socket: an object of JSON on a line, and a line back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use exos::Error;
use serde::Serialize;
use serde_json::Value;

/// Where a forwarder listens for questions unless told otherwise.
pub const FORWARD_SOCKET: &str = "/run/exos/forward.sock";

/// Bytes of an answer: a forwarder's status with as many servers and listeners as there may be, with 500 bytes each and 60 for
/// each server of a listener, is below this.
const ANSWER_LEN_MAX: u64 = 32 << 20;

/// How long an answer is waited for by a program that has nothing else to do. A loop that is busy looks at its socket every
/// millisecond.
pub const ANSWER_TIME: Duration = Duration::from_secs(10);

/// An answer as its line.
///
/// # Errors
///
/// Nobody answers there in time, or anyone who asks may not.
pub fn ask(path: &Path, request: &impl Serialize, time: Duration) -> Result<String, Error> {
    let failed = |e| {
        Error::io(format!("cannot ask the forwarder at {}", path.display()), e).mend(
            "start it with --control, name its socket with --control PATH (exos top: --forward PATH), and be its user",
        )
    };
    exchange(path, request, time).map_err(failed)
}

fn exchange(path: &Path, request: &impl Serialize, time: Duration) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(time))?;
    stream.set_write_timeout(Some(time))?;
    let text = serde_json::to_string(request)?;
    stream.write_all(format!("{text}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_LEN_MAX)).read_line(&mut line)?;
    Ok(line)
}

/// What a line says: what was asked for, or why not.
///
/// # Errors
///
/// It is no answer.
pub fn answer(line: &str) -> Result<Result<Value, Error>, Error> {
    let strange = || {
        Error::new(format!("this is no answer: {}", line.trim_end()))
            .mend("use a program of the forwarder's version")
    };
    let answer: Value = serde_json::from_str(line).map_err(|_| strange())?;
    match (answer["ok"].as_bool(), answer["error"].as_str()) {
        (Some(true), _) => Ok(Ok(answer)),
        (Some(false), Some(error)) => Ok(Err(Error::new(error))),
        _ => Err(strange()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_answer_and_others() {
        let good = answer("{\"ok\":true,\"status\":7}\n").unwrap().unwrap();
        assert_eq!(good["status"], 7);
        let refused = answer("{\"ok\":false,\"error\":\"no such server\"}").unwrap();
        assert_eq!(refused.unwrap_err().to_string(), "no such server");
        for strange in ["", "{}", "{\"ok\":false}", "hello", "[]", "{\"ok\":1}"] {
            let error = answer(strange).unwrap_err().to_string();
            assert!(error.starts_with("this is no answer"), "{error}");
        }
    }

    #[test]
    fn nobody_there() {
        let error = ask(Path::new("/nonexistent/forward.sock"), &7, ANSWER_TIME).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/forward.sock"));
    }
}
