//! A part of a test that ends its process or changes what holds for all of it (limits, system-call filters, standard
//! output): it runs in a process of its own, which is this test program once more with only that test.
//!
//! One test of a file does nothing unless [`role`] gives it a word, plays the part of that word, and ends with [`done`].
//! Another starts it with [`play`].

use std::process::{Command, ExitStatus};

const ROLE: &str = "EXOS_TEST_ROLE";

/// What nothing else ends with: a test that fails has 101, one that does nothing 0.
const DONE: i32 = 42;

/// The word that [`play`] was given, in the process that it started; `None` in the one that runs all tests.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Ends the process of a role that has come to its end.
pub fn done() -> ! {
    std::process::exit(DONE)
}

/// Runs the test of this full name in a process of its own, in which [`role`] is the word given.
pub fn play(test: &str, role: &str) -> ExitStatus {
    let this = std::env::current_exe().expect("this program has a file");
    let mut command = Command::new(this);
    command
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role);
    let played = command.output().expect("it starts");
    // Shown when the test that asked for it fails; indented, for it has results of tests of its own.
    for output in [&played.stdout, &played.stderr] {
        for line in String::from_utf8_lossy(output).lines() {
            println!("    {role}: {line}");
        }
    }
    played.status
}

/// Whether a role came to its end.
pub fn is_done(ended: ExitStatus) -> bool {
    ended.code() == Some(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role() {
        match role().as_deref() {
            Some("good") => done(),
            Some("bad") => panic!("as it is to be"),
            _ => {}
        }
    }

    #[test]
    fn only_a_role_that_comes_to_its_end_is_done() {
        assert!(is_done(play("subprocess::tests::a_role", "good")));
        assert!(!is_done(play("subprocess::tests::a_role", "bad")));
        assert!(!is_done(play("subprocess::tests::none", "good")));
    }
}
