//! `exos lab` with an emulator in the background, as a person uses it: up, used, killed, repaired, down.
//!
//! Without root the test says SKIPPED and passes.

use std::io::Write as _;
use std::process::{Command, Output};

fn exos(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exos"));
    let output = command.args(line.split_whitespace()).output();
    output.expect("it runs")
}

/// What it said, both streams; it must have succeeded or not as expected.
fn said(line: &str, success: bool) -> String {
    let output = exos(line);
    let [out, err] =
        [output.stdout, output.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
    let text = out + &err;
    assert_eq!(output.status.success(), success, "{line}: {text}");
    text
}

/// Takes the lab down also when the test fails.
struct Down(String);

impl Drop for Down {
    fn drop(&mut self) {
        exos(&format!("lab down --name {}", self.0));
    }
}

/// The number that follows these words.
fn number_after(text: &str, words: &str) -> u32 {
    let rest = text.split_once(words).expect("it is said").1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn an_emulator_in_the_background_lives_until_down_and_is_replaced_after_a_crash() {
    if !rustix::process::geteuid().is_root() {
        let _ = std::io::stderr().write_all(b"SKIPPED: lab_emulator needs root\n");
        return;
    }
    let name = format!("cli{}", std::process::id());
    let _down = Down(name.clone());
    let up = format!("lab up --name {name} --delay 5ms --loss 0%");
    let text = said(&up, true);
    assert!(
        text.contains("is up") && text.contains("delay 5ms"),
        "{text}"
    );
    assert!(said(&up, true).contains("was up already"));

    // Refused at once, so after a round trip.
    let connect = "exec 3<>/dev/tcp/10.10.0.1/9";
    let mut used = Command::new(env!("CARGO_BIN_EXE_exos"));
    used.args([
        "lab", "exec", "--name", &name, "b", "--", "bash", "-c", connect,
    ]);
    let begin = std::time::Instant::now();
    assert!(!used.output().expect("it runs").status.success());
    assert!(begin.elapsed().as_millis() >= 10, "{:?}", begin.elapsed());

    let status = said(&format!("lab status --name {name}"), true);
    let pid = number_after(&status, "emulator: process ");
    assert!(status.contains("frames in"), "{status}");
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("not 0");
    // What asks an emulator in the foreground for its statistics does this one no harm.
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).expect("it is there");
    let still = said(&format!("lab status --name {name}"), true);
    assert_eq!(
        number_after(&still, "emulator: process "),
        number_after(&status, "emulator: process ")
    );
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
    let broken = wait_for(&name, "the emulator is not running");
    assert!(broken.contains("broken"), "{broken}");

    let other = format!("lab up --name {name} --delay 1ms --rate 10mbit");
    let text = said(&other, true);
    assert!(text.contains("is now as asked for"), "{text}");
    let json = said(&format!("lab status --name {name} --json"), true);
    assert!(json.contains("\"rate_bits_per_sec\": 10000000"), "{json}");
    let refused = said(
        &format!("lab up --name {name} --wire offload --delay 1ms"),
        false,
    );
    assert!(refused.contains("use the plain wire"), "{refused}");

    let last = said(&format!("lab down --name {name}"), true);
    assert!(
        last.contains("a to b:") && last.contains("is gone"),
        "{last}"
    );
    assert!(said(&format!("lab status --name {name}"), true).contains("down"));
}

/// The kernel takes a moment to bury a process.
fn wait_for(lab: &str, words: &str) -> String {
    for _ in 0..1000 {
        let text = said(&format!("lab status --name {lab}"), true);
        if text.contains(words) {
            return text;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the status never says: {words}");
}
