//! Thousands of streams of requests that are nearly right, answered by us and by nginx: status by status, and the
//! documents too. Each difference is explained by a rule of `common/rules.rs`, or is a failure.
//!
//! Where nginx is not installed it says that it did nothing. `EXOS_SEEDS` multiplies how many streams there are; a
//! failure prints the seed of its stream.

use crate::common;
use crate::common::nginx;
use crate::common::rules;
use crate::common::seen;
use crate::http::corpus::bodies::mutations;

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use exos_cheetah::{Next, ServerConnection};
use exos_testing::Random;
use nginx::Nginx;
use rules::RULES;
use seen::Seen;

const STREAMS: u64 = 5000;

/// A response: its status, and what was sent of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    content: Option<Vec<u8>>,
}

/// The responses in what a server has sent, to requests of which some have the method HEAD.
fn answers(mut bytes: &[u8], mut is_head: impl FnMut(usize) -> bool) -> Vec<Answer> {
    let mut all = Vec::new();
    while let Some((answer, rest)) = answer(bytes, is_head(all.len())) {
        bytes = rest;
        // RFC 9110 §10.1.1: a final answer may come without this one before it.
        if answer.status != 100 {
            all.push(answer);
        }
    }
    all
}

fn answer(bytes: &[u8], is_head: bool) -> Option<(Answer, &[u8])> {
    if bytes.is_empty() {
        return None;
    }
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let (true, Some(end)) = (bytes.starts_with(b"HTTP/1.1 "), end) else {
        // HTTP/0.9 has content and nothing else, until the connection closes.
        let answer = Answer {
            status: 9,
            content: None,
        };
        return Some((answer, &[]));
    };
    // nginx sends the bytes of a query back as they came, in Location.
    let head = String::from_utf8_lossy(&bytes[..end + 2]);
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let status = head[9..12].parse().expect("a status");
    let rest = &bytes[end + 4..];
    let len = field("Content-Length: ").filter(|_| !is_head);
    let len: usize = len.map_or(0, |len| len.parse().expect("a number"));
    let (content, rest) = rest.split_at(rest.len().min(len));
    let is_multipart = field("Content-Type: ").is_some_and(|is| is.starts_with("multipart"));
    let is_document = matches!(status, 200 | 206) && !is_multipart;
    let content = is_document.then(|| content.to_vec());
    Some((Answer { status, content }, rest))
}

/// Our answers, each with its request and what follows that; and what is left.
fn ours(stream: &[u8]) -> (Vec<(Answer, &[u8])>, &[u8]) {
    let mut server = common::server();
    let mut connection = ServerConnection::new();
    let (mut rest, mut all) = (stream, Vec::new());
    loop {
        let mut out = Vec::new();
        // With room for a byte there is one response to a call.
        let handled = connection.handle_bytes(&mut server, rest, 1, &mut out);
        let sent: Vec<&[u8]> = out.iter().map(exos_buf::Slice::as_bytes).collect();
        assert!(
            sent.concat().is_ascii(),
            "what is sent is ASCII: {stream:?}"
        );
        let is_head = Seen::new(rest).method == b"HEAD";
        let answers = answers(&sent.concat(), |_| is_head).into_iter();
        all.extend(answers.map(|answer| (answer, rest)));
        rest = &rest[handled.consumed..];
        match handled.next {
            Next::Send => {}
            Next::Receive | Next::Close => return (all, rest),
            Next::Http2 => panic!("nobody may speak HTTP/2 here"),
            Next::Wait(_) | Next::Tail(_) | Next::Ask(_) => panic!("all documents are in memory"),
        }
    }
}

/// What differs and no rule explains; how often each rule does is counted.
fn surprise(stream: &[u8], nginx: &Nginx, used: &mut [u32]) -> Option<String> {
    let (ours, left) = ours(stream);
    let is_head = |index: usize| {
        let request = ours.get(index).map_or(left, |&(_, request)| request);
        Seen::new(request).method == b"HEAD"
    };
    let theirs = answers(&nginx.whole_answer(stream), is_head);
    let mut differed = false;
    for index in 0..ours.len().max(theirs.len()) {
        let (mine, other) = (ours.get(index), theirs.get(index));
        if mine.map(|(answer, _)| answer) == other {
            continue;
        }
        // Where one has refused and the other has not, only one goes on.
        if differed && (mine.is_none() || other.is_none()) {
            return None;
        }
        differed = true;
        let request = mine.map_or(left, |&(_, request)| request);
        let statuses =
            [mine.map(|(answer, _)| answer), other].map(|is| is.map_or(0, |is| is.status));
        let mut seen = Seen::new(request);
        if let Some(before) = index.checked_sub(1) {
            seen.before = Some((Box::new(Seen::new(ours[before].1)), theirs[before].status));
        }
        if !is_explained(&seen, statuses, used) {
            let stream = String::from_utf8_lossy(stream);
            return Some(format!("request {index}: {statuses:?} {stream:?}"));
        }
    }
    None
}

fn is_explained(seen: &Seen<'_>, [ours, theirs]: [u16; 2], used: &mut [u32]) -> bool {
    let fits = |statuses: &[u16], status| statuses.is_empty() || statuses.contains(&status);
    let rule = RULES
        .iter()
        .position(|rule| fits(rule.ours, ours) && fits(rule.theirs, theirs) && (rule.holds)(seen));
    rule.inspect(|&rule| used[rule] += 1).is_some()
}

#[test]
fn nginx_agrees_or_a_rule_explains_the_difference() {
    let Some(nginx) = Nginx::start(prepare) else {
        eprintln!("SKIPPED: nginx_agrees_or_a_rule_explains_the_difference needs nginx");
        return;
    };
    let mut used = vec![0; RULES.len()];
    let surprises: Vec<String> = (0..exos_testing::cases(STREAMS))
        .filter_map(|seed| {
            let stream = mutations::stream(&Random(seed).bytes(120));
            let what = surprise(&stream, &nginx, &mut used)?;
            Some(format!("seed {seed}, {what}"))
        })
        .collect();
    println!("differences from {}", nginx.version.trim());
    for (rule, used) in RULES.iter().zip(&used) {
        println!("{used:>7} {} {:?} {:?}", rule.why, rule.ours, rule.theirs);
    }
    let some = &surprises[..surprises.len().min(30)];
    assert!(some.is_empty(), "{}\n{}", surprises.len(), some.join("\n"));
}

/// The documents of [`common::site`], and a configuration that serves them.
fn prepare(folder: &Path, port: u16) {
    let modified = UNIX_EPOCH + Duration::from_secs(common::MODIFIED_SECS);
    for (name, content) in [
        ("index.html", "<p>start"),
        ("a.txt", "text a"),
        ("dir/index.html", "<p>dir"),
        ("dir/with space.txt", "space"),
        ("dir/100%.txt", "percent"),
        ("bare/deep/b.txt", "text b"),
        ("empty", ""),
        ("what?.txt", "question"),
    ] {
        let path = folder.join("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(modified).unwrap();
    }
    let servers = format!("server {{ listen 127.0.0.1:{port}; root root; }}");
    nginx::configure(folder, &servers);
}
