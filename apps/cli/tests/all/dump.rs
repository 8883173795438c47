//! `exos dump` as a command: files and pipes, times, counts, and readers that go away.
//!
//! tcpdump reads the same files and writes the same lines; without it that part is skipped, saying so.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use tempfile::NamedTempFile;

/// A zone with a daylight saving time, written so that no file of zones is needed.
const ZONE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

/// Datagrams to ports 40000 and 40002 in turn, some hours apart, the last one earlier than the one
/// before. All on one day, because tcpdump leaves days out of differences of times.
fn capture() -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for i in [0, 1, 2, 3, 4, 5, 6, 5] {
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        packet.extend([
            0x45, 0, 0, 32, 0, i, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        packet.extend(40001_u16.to_be_bytes());
        packet.extend(if i % 2 == 0 { 40000_u16 } else { 40002 }.to_be_bytes());
        packet.extend([0, 12, 0, 0, 1, 2, 3, 4]);
        let secs = 1_711_800_000 + u32::from(i) * 10_000;
        for word in [
            secs,
            999_000 + u32::from(i),
            packet.len() as u32,
            packet.len() as u32,
        ] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

fn written(content: &[u8]) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(&file, content).expect("a file to be written");
    file
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().expect("a path of text")
}

fn exos(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exos"));
    command.arg("dump").args(args).env("TZ", ZONE);
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("it runs")
}

fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn tcpdump(args: &[&str]) -> Option<String> {
    let mut command = Command::new("tcpdump");
    command
        .arg("-n")
        .args(args)
        .env("TZ", ZONE)
        .stdin(Stdio::null());
    match command.output() {
        Ok(output) => Some(text(&output)),
        Err(_) => {
            println!("SKIPPED: tcpdump is not installed");
            None
        }
    }
}

#[test]
fn times_filters_counts_and_snap_lengths_are_as_tcpdump_has_them() {
    let file = written(&capture());
    let all: [&[&str]; 10] = [
        &[],
        &["-t"],
        &["-tt"],
        &["-ttt"],
        &["-tttt"],
        &["-ttttt"],
        &["-c", "3"],
        &["-t", "-e", "-v"],
        &["-t", "-xx", "-c", "1"],
        &["-t", "-S", "-X", "-c", "2"],
    ];
    for args in all {
        let args = [&["-r", path(&file)], args, &["port", "40000"]].concat();
        let Some(theirs) = tcpdump(&args) else { return };
        assert!(theirs.lines().count() >= 3, "{theirs}");
        assert_eq!(text(&run(&mut exos(&args))), theirs, "{args:?}");
    }
}

#[test]
fn what_is_written_to_a_pipe_is_read_from_one() {
    let file = written(&capture());
    let again = run(&mut exos(&["-r", path(&file), "-w", "-", "-s", "20"]));
    assert!(again.status.success());
    let read = |content: &[u8]| {
        let mut child = exos(&["-t", "-r", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(content)
            .expect("it reads");
        text(&child.wait_with_output().expect("it ends"))
    };
    assert_eq!(read(&again.stdout), "IP  [|ip]\n".repeat(8));
    assert_eq!(read(&capture()).lines().count(), 8);
}

#[test]
fn json_is_an_object_for_each_packet() {
    let file = written(&capture());
    let json = text(&run(&mut exos(&["--json", "-r", path(&file), "-c", "1"])));
    let expected = r#"{"captured":46,"direction":null,"dropped":null,"interface":null,"length":46,"program":null,"slot":null,"text":"IP 10.0.0.1.40001 > 10.0.0.2.40000: UDP, length 4","time_ns":1711800000999000000,"verdict":null}"#;
    assert_eq!(json, expected.to_owned() + "\n");
}

/// `exos dump | head -1`.
#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let once = capture();
    let many = [&once[..24], &once[24..].repeat(2000)].concat();
    let file = written(&many);
    let mut child = exos(&["-r", path(&file)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn what_cannot_be_done_is_said() {
    let damaged = written(&capture()[..100]);
    let refused = |args: &[&str]| {
        let output = run(&mut exos(args));
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let said = refused(&["-r", path(&damaged)]);
    assert!(
        said.contains("the file ends inside a packet's header; capture files are pcapng or pcap"),
        "{said}"
    );
    let said = refused(&["-r", "/nowhere/at.all"]);
    assert!(
        said.contains("cannot read /nowhere/at.all: No such file"),
        "{said}"
    );
    let said = refused(&["-r", path(&damaged), "port", "ninety"]);
    assert!(said.contains("the filter is not understood"), "{said}");
    let said = refused(&["--xokd", "/nowhere/at.all"]);
    assert!(
        said.contains("there is no daemon at /nowhere/at.all; start the daemon"),
        "{said}"
    );
    let said = refused(&["-w", "/nowhere/at.all"]);
    assert!(said.contains("cannot write /nowhere/at.all"), "{said}");
}
