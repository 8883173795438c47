use super::*;
use crate::request::Request;
use clap::Parser;
use exos_host::affinity;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: LoadArgs,
}

fn args(line: &str) -> LoadArgs {
    let words = format!("load http://10.0.0.1/ {line}");
    Line::parse_from(words.split_whitespace()).args
}

fn refusal(line: &str) -> String {
    let words = format!("load http://10.0.0.1/ {line}");
    let parsed = Line::try_parse_from(words.split_whitespace());
    parsed.err().expect(line).to_string()
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn steps_of_the_rate() {
    let phase = |time, from, to| Phase { time, from, to };
    let open = args("--rate 100:5s,100-200:10s,50 --duration 20s");
    let duration = open.duration().unwrap();
    assert_eq!(duration, secs(20));
    let all = [
        phase(secs(5), 100.0, 100.0),
        phase(secs(10), 100.0, 200.0),
        phase(secs(5), 50.0, 50.0),
    ];
    assert_eq!(open.phases(duration).unwrap(), all);
    let timed = args("--rate 100:5s,200:6s");
    assert_eq!(timed.duration().unwrap(), secs(11));
    assert_eq!(args("--rate 7").duration().unwrap(), LOAD_TIME);
    for (line, part) in [("--rate 100,200:6s", "step 1"), ("--rate 0", "rate of 0")] {
        let open = args(line);
        let error = open.phases(secs(9)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn on_which_cores() {
    let places = |line: &str| args(line).places(&[2, 3, 5]).map_err(|e| e.to_string());
    for (line, wanted) in [
        ("", &[][..]),
        ("--core 3", &[3]),
        ("--cores 2", &[2, 3]),
        ("--cores 2 --core 3", &[3, 5]),
        ("--core 5,2", &[5, 2]),
        ("--cores 3 -c 3", &[2, 3, 5]),
    ] {
        assert_eq!(places(line).unwrap(), [wanted], "{line}");
    }
    for (line, part) in [
        ("--cores 4", "give --cores 3"),
        (
            "--cores 3 -c 2",
            "give --connections 3 or more, or --cores 2",
        ),
        ("--cores 3 -c 2 --rate 5", "or --cores 2"),
        ("--core 4", "may not run on core 4"),
    ] {
        let error = places(line).unwrap_err();
        assert!(error.contains(part), "{line}: {error}");
    }
}

/// Each link has loops: on cores of its own, or on one that they share.
#[test]
fn on_which_cores_each_link() {
    let both = "--link xdp:a --address 192.0.2.7/24 --link xdp:b --address 198.51.100.7/24";
    let places = |line: &str| args(&format!("{both} {line}")).places(&[2, 3, 5]);
    for (line, wanted) in [
        ("--cores 1", [vec![2], vec![2]]),
        ("--cores 2", [vec![2], vec![3]]),
        ("--cores 3", [vec![2, 5], vec![3]]),
        ("--core 5", [vec![5], vec![5]]),
    ] {
        assert_eq!(places(line).unwrap(), wanted, "{line}");
    }
    assert_eq!(
        args(&format!("{both} --cores 1 --idle poll")).idle(),
        Idle::Sleep
    );
    let error = places("--cores 1 -c 1").unwrap_err().to_string();
    assert!(error.contains("2 links have a client each"), "{error}");
}

/// A pool is of the link in whose network it is.
#[test]
fn pools_of_several_links() {
    let both = "--link xdp:a --address 192.0.2.7/24 --link xdp:b --address 10.0.0.7/8";
    let pools = |line: &str| args(&format!("{both} {line}")).pools();
    let each = pools("--pool 10.9.0.0/16 --pool 192.0.2.128/28").unwrap();
    let text = |pools: &Vec<Prefixed>| pools.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        each.iter().map(text).collect::<Vec<_>>(),
        [["192.0.2.128/28"], ["10.9.0.0/16"]]
    );
    let error = pools("--pool 203.0.113.0/24").unwrap_err().to_string();
    assert!(error.contains("203.0.113.0/24 is in no network"), "{error}");
    assert_eq!(args("--pool 203.0.113.0/24").pools().unwrap()[0].len(), 1);
}

/// Anyone who has a core left for the server looks on.
#[test]
fn who_takes_all_cores_sleeps() {
    let all = affinity::allowed().unwrap().len();
    assert_eq!(args(&format!("--cores {all}")).idle(), Idle::Sleep);
    assert_eq!(
        args(&format!("--cores {all} --idle poll")).idle(),
        Idle::Poll
    );
    if all > 1 {
        assert_eq!(args("").idle(), Idle::Poll);
    }
}

#[test]
fn what_is_refused() {
    for (line, part) in [
        ("--rate 10-20", "lasts some time"),
        ("--rate x", "no rate"),
        ("--rate 5:0s", "takes some time"),
        ("--timeout 0s", "takes some time"),
        ("--duration 0s", "takes some time"),
        ("--rate -1", "unexpected argument"),
        ("--connections 0", "0 is not in"),
        ("--cores 0", "0 is not in"),
        ("--header x", "NAME: VALUE"),
        ("--header a/b:c", "no word"),
        ("--method G(T", "no word"),
        ("--think 1s --rate 5", "cannot be used"),
        ("--poisson", "--rate"),
        ("--pipeline 0", "0 is not in"),
        ("--pipeline 2 --rate 5", "cannot be used"),
        ("--pipeline 2 --think 1s", "cannot be used"),
        ("--pipeline 2 --find-peak p99<5ms", "cannot be used"),
        ("--range 5", "no range"),
        ("--range 5-4", "no range"),
        ("--range -", "no range"),
        ("--range +1-2", "no range"),
        ("--expect-sha256 12", "no SHA-256"),
        ("--expect-status 99", "99 is not in"),
        ("--urls", "a value is required"),
        ("--surge x --rate 5", "cannot be used"),
        ("--surge x --urls y", "cannot be used"),
        ("--speed 2", "--replay"),
        ("--replay x --speed 0", "no factor"),
        ("--replay x --urls y", "cannot be used"),
        ("--replay x -X PUT", "cannot be used"),
        ("--replay x --rate 5 --speed 2", "cannot be used"),
        ("--sockets --link tap:t0", "cannot be used"),
        ("--sockets --pool 10.9.0.0/16", "cannot be used"),
        ("--pool 10.9.0.0", "no prefix length"),
        ("--sockets --nagle", "cannot be used"),
        ("--sockets --no-merging", "cannot be used"),
        ("--sockets --no-count-only", "cannot be used"),
        ("--sockets --no-verify-checksums", "cannot be used"),
    ] {
        let said = refusal(line);
        assert!(said.contains(part), "{line}: {said}");
    }
    let error = args("--warm-up 30s").duration().unwrap_err().to_string();
    assert!(error.contains("whole load"), "{error}");
}

#[test]
fn what_is_asked() {
    let one = args("-X HEAD -H A:b --range -5 --requests-per-connection 1 --no-merging -n 5");
    let content = one.content().unwrap();
    let request = Request::new(&content.of(&"http://h/p".parse().unwrap()));
    assert!(request.is_head());
    let bytes = request
        .bytes(crate::request::Position::Last)
        .as_bytes()
        .to_vec();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("HEAD /p HTTP/1.1\r\nHost: h\r\n"));
    assert!(text.contains("\r\nRange: bytes=-5\r\n"));
    let behaviour = one.behaviour();
    assert_eq!(
        (
            behaviour.slots,
            behaviour.requests,
            behaviour.requests_per_connection
        ),
        (64, 5, 1)
    );
    assert!(!behaviour.merging);
    assert_eq!(args("--rate 5").behaviour().slots, OPEN_CONNECTIONS);
    assert_eq!(args("").behaviour().timeout, REQUEST_TIME);
}
