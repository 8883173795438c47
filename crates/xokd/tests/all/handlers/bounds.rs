//! What is refused, and how much of memory, code and steps handlers may take.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use exos_xok::Protocol;
use exos_xok::message::{PortWish, Refusal};

use super::{Asker, COUNTERS, Holder, PORT, lab_of, refused, too_many_ways};
use crate::daemon::{counters, report};
use crate::lab::*;

#[test]
fn what_cannot_be_handled_is_refused_with_the_reason() {
    let Some((lab, _takes)) = lab_of("handler-refused") else {
        return;
    };
    let holder = Holder::new(&lab, PORT);
    let beside = Holder::new(&lab, 4001);
    let done = "handler h { done; }";
    for (port, handler, code, why) in [
        (0, done, Refusal::NotFound, "UDP port 0"),
        (4001, done, Refusal::NotFound, "UDP port 4001"),
        (PORT, "", Refusal::BadRequest, "handler"),
        (PORT, "handler h { x = 1; }", Refusal::BadRequest, "verdict"),
        (
            PORT,
            "handler h { rows r[1000000] of 4096; done; }",
            Refusal::BadRequest,
            "bytes",
        ),
    ] {
        let (refused, text) = refused(&holder, port, handler);
        assert_eq!(refused, code, "{text}");
        assert!(text.contains(why), "{text}");
    }
    // Nested as deeply as a message is long.
    let deep = format!("handler h {{ x = {}1; done; }}", "(".repeat(60_000));
    assert_eq!(refused(&holder, PORT, &deep).0, Refusal::BadRequest);
    let ways = format!(
        "handler h {{ words w[1048576]; need 12; {} p = &w[x]; add(p, 1); done; }}",
        too_many_ways()
    );
    let (refused, text) = refused(&holder, PORT, &ways);
    assert_eq!(refused, Refusal::BadRequest, "{text}");
    assert!(text.contains("too many ways"), "{text}");
    holder.download(PORT, done, 1).expect("the daemon lives");
    beside.download(4001, done, 1).expect("each has one");
}

#[test]
fn memory_counts_until_nobody_has_it() {
    let Some((mut lab, _takes)) = lab_of("handler-memory") else {
        return;
    };
    lab.stop();
    lab.start_by("[[allow]]\nuser = \"root\"\nmemory_max = \"20MiB\"\n");
    let holder = Holder::new(&lab, PORT);
    let large = "handler h { words w[1000000]; done; }";
    let first = holder.download(PORT, large, 1_000_000).expect("8 MB");
    let second = holder.download(PORT, large, 1_000_000).expect("16 MB");
    let (code, text) = refused(&holder, PORT, large);
    assert_eq!(code, Refusal::Limit, "{text}");
    // The one before is nobody's when the program lets go of it; the other is still the handler's.
    drop((first, second));
    let third = || holder.download(PORT, large, 1_000_000).ok();
    let mut memory = None;
    assert!(within(|| {
        memory = third();
        memory.is_some()
    }));
}

/// Beside its memory, which the program has still, a handler's code is in the kernel as long as the handler.
#[test]
fn code_counts_until_it_is_gone() {
    let Some((lab, _takes)) = lab_of("handler-code") else {
        return;
    };
    let holder = Holder::new(&lab, PORT);
    let counted = || {
        let report = report(&holder.program);
        let bytes = &report["interfaces"][0]["slots"][0]["memory_bytes"];
        bytes.as_u64().expect("bytes")
    };
    let must_come_to = |bytes: u64| {
        let is_there = within(|| counted() == bytes);
        assert!(is_there, "{} bytes, not {bytes}", counted());
    };
    let before = counted();
    let statements = "w = be64(0) * 3;".repeat(1000);
    let text = format!(
        "handler h {{ words n[512]; need 8; {statements} p = &n[w & 511]; add(p, 1); done; }}"
    );
    let memory = holder.download(PORT, &text, 512).expect("it is sound");
    let is_counted = || counted() > before + 4096 + 2 * 8 * 1000;
    assert!(within(is_counted), "{}", counted());
    holder.remove(None);
    must_come_to(before + 4096);
    drop(memory);
    must_come_to(before);
}

#[test]
fn policy_bounds_and_forbids() {
    let Some((mut lab, _takes)) = lab_of("handler-policy") else {
        return;
    };
    lab.stop();
    let rule = |steps: u64| format!("[[allow]]\nuser = \"root\"\nhandler_steps = {steps}\n");
    lab.start_by(&rule(0));
    let mut holder = Holder::new(&lab, PORT);
    let (code, text) = refused(&holder, PORT, COUNTERS);
    assert_eq!(code, Refusal::NotAllowed);
    assert!(text.contains("handler_steps"), "{text}");

    // So few that of many messages at once all but some go to the program.
    lab.reload(&rule(10_000));
    let mut memory = None;
    assert!(within(|| {
        memory = holder.download(PORT, COUNTERS, 1024).ok();
        memory.is_some()
    }));
    let told = || {
        let all = counters(&holder.program, holder.slot);
        let told = ["handler_answered", "handler_skipped"].map(|name| all[name].as_u64());
        told.map(|count| count.expect("it is counted"))
    };
    let asker = Asker::new(&lab);
    let (mut sent, mut skipped, mut came) = (0, 0, 0);
    // A machine that sends them slowly gives it time to have steps again.
    let are_few = |_| {
        for _ in 0..50 {
            let message = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
            asker.0.send(&message).expect("a neighbour");
        }
        sent += 50;
        let before = skipped;
        let are_told = within(|| {
            holder.link.receive(|_, _| came += 1);
            let [answered, now] = told();
            skipped = now;
            answered + skipped == sent && came >= skipped
        });
        assert!(are_told, "{:?} of {sent}, {came} came", told());
        skipped - before >= 35
    };
    assert!((0..10).any(are_few), "{skipped} of {sent}");

    // And none from now on, without a word of the program.
    lab.reload(&rule(0));
    let memory = memory.expect("it was downloaded");
    let message = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
    let is_over = || {
        // The steps that it may have had are there again.
        std::thread::sleep(Duration::from_millis(20));
        let before = memory.words()[7].load(Ordering::Relaxed);
        asker.0.send(&message).expect("a neighbour");
        assert!(holder.receives(&lab, "behind it"));
        memory.words()[7].load(Ordering::Relaxed) == before
    };
    assert!(within(is_over));
}

/// For longer than what they may take at once lasts.
#[test]
fn handlers_of_a_program_have_their_steps_together() {
    let Some((mut lab, _takes)) = lab_of("handlers-steps") else {
        return;
    };
    lab.stop();
    let steps_per_sec = 10_000;
    lab.start_by(&format!(
        "[[allow]]\nuser = \"root\"\nhandler_steps = {steps_per_sec}\n"
    ));
    let holder = Holder::new(&lab, PORT);
    port_of(
        &holder
            .program
            .claim(Protocol::Udp, PortWish::Number(PORT + 1)),
    );
    let ports = [PORT, PORT + 1];
    let memories = ports.map(|port| holder.download(port, COUNTERS, 1024).expect("steps"));
    let askers = ports.map(|port| Asker::of(&lab, port));
    let message = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
    let dealt_with = || {
        memories
            .each_ref()
            .map(|m| m.words()[7].load(Ordering::Relaxed))
    };
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(1) {
        for asker in &askers {
            asker.0.send(&message).expect("a neighbour");
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let each = exos::ash::parse(COUNTERS).expect("it is sound").steps() + 30;
    let may = steps_per_sec as f64 * (begin.elapsed().as_secs_f64() + 0.01) / each as f64;
    // One more for each processor, which looks before it takes.
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let count = dealt_with();
    assert!(count.iter().all(|count| *count > 0), "{count:?}");
    let sum: u64 = count.iter().sum();
    assert!(sum <= may as u64 + processors, "{count:?}, not {may}");
}
