//! Whether it pays in the kernel, too, to do in one loop what is done to each byte of a message: eBPF that loads each word once beside the
//! kernel's helpers, one after the other, with what no helper does in a loop of its own.
//!
//! `sudo -E cargo run --release -p exos-ash --example kernel_pipes` prints nanoseconds of a message in the kernel's test run, without those
//! of a program that does nothing. Lengths are known beforehand and loops unrolled: the best case of what is written in eBPF. Then likewise of
//! handlers in the language, whose pipes are written out for up to 128 known bytes, and else a loop; and what each pipe takes for 8 bytes, beside
//! one that changes nothing.

use std::sync::atomic::Ordering::Relaxed;

use exos_ash::Layout;
use exos_ash::kernel::InKernel;
use exos_filter::ebpf::{Alu, Assembler, Condition, Emit, Helper, Reg, Size};
use exos_filter::handler::Handler as _;
use exos_filter::handler::arithmetic::{fold, set_wide};
use exos_filter::handler::forward::WayOut;
use exos_filter::{Counter, Program};
use exos_host::bpf::{Map, MappedArray, Prog};
use exos_wire::{Mac, Sum};

type Error = Box<dyn std::error::Error>;

const LENGTHS: [i32; 6] = [16, 64, 128, 256, 512, 1024];
/// Where a message begins in its frame.
const MESSAGE: i32 = 14;
/// Bytes that `bpf_csum_diff` takes at once.
const SUMMED_MAX: i32 = 512;
const KEY: u64 = 0x1234_5678_9abc_def0;
const RUNS: u32 = 200_000;
/// Pipes of handlers, with how many registers they have.
const PIPES: [(&str, usize); 14] = [
    ("swap(2)", 0),
    ("xor(4, 3)", 0),
    ("and(4, 3)", 0),
    ("or(4, 3)", 0),
    ("checksum", 1),
    ("sum(1)", 1),
    ("sum(2)", 1),
    ("sum(4)", 1),
    ("sum(8)", 1),
    ("hash(1)", 1),
    ("hash(4)", 1),
    ("hash(8)", 1),
    ("checksum, sum(8)", 2),
    ("checksum, sum(8), sum(8), sum(8)", 4),
];

/// The context, the message, the row in memory that it goes to, the sum.
const CONTEXT: Reg = Reg::R6;
const FROM: Reg = Reg::R7;
const ROW: Reg = Reg::R8;
const SUM: Reg = Reg::R9;

/// What is done with a message.
#[derive(Clone, Copy)]
struct Job {
    name: &'static str,
    sums: bool,
    takes: bool,
    masks: bool,
}

const JOBS: [Job; 4] = [
    Job {
        name: "checksum",
        sums: true,
        takes: false,
        masks: false,
    },
    Job {
        name: "copy, checksum",
        sums: true,
        takes: true,
        masks: false,
    },
    Job {
        name: "copy, mask",
        sums: false,
        takes: true,
        masks: true,
    },
    Job {
        name: "copy, checksum, mask",
        sums: true,
        takes: true,
        masks: true,
    },
];

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Nothing,
    OneLoop,
    Helpers,
}

fn main() -> Result<(), Error> {
    let row = MappedArray::new("row", 1024, 1)?;
    println!(
        "{:>22} {:>6} {:>9} {:>9} {:>6}",
        "ns", "bytes", "one loop", "helpers", "ratio"
    );
    for job in JOBS {
        for bytes in LENGTHS {
            let nothing = measure(job, Way::Nothing, bytes, &row)?;
            let [one_loop, helpers] =
                [Way::OneLoop, Way::Helpers].map(|way| measure(job, way, bytes, &row));
            let (one_loop, helpers) = (
                one_loop?.saturating_sub(nothing),
                helpers?.saturating_sub(nothing),
            );
            let ratio = f64::from(one_loop) / f64::from(helpers.max(1));
            println!(
                "{:>22} {bytes:>6} {one_loop:>9} {helpers:>9} {ratio:>6.2}",
                job.name
            );
        }
    }
    println!(
        "{:>22} {:>6} {:>9} {:>9}",
        "ns", "bytes", "known", "computed"
    );
    for job in JOBS.into_iter().filter(|job| job.takes) {
        for bytes in LENGTHS {
            let nothing = measure_handler("", bytes)?;
            let [known, computed] = [bytes.to_string(), "length".into()]
                .map(|length| measure_handler(&take(job, &length), bytes));
            let (known, computed) = (
                known?.saturating_sub(nothing),
                computed?.saturating_sub(nothing),
            );
            println!("{:>22} {bytes:>6} {known:>9} {computed:>9}", job.name);
        }
    }
    println!("{:>36} {:>9} {:>9}", "ns of 8 bytes", "known", "computed");
    for (pipes, registers) in PIPES {
        let [known, computed] = [("128", 128), ("length", 1024)].map(|(length, bytes)| {
            let ns = |pipes: &str, kept: &str| {
                let take = format!("{kept}take(p, 0, {length}) through {pipes};");
                measure_handler(&take, bytes).map(f64::from)
            };
            let kept = match ["a", "b", "c", "d"][..registers].join(", ") {
                none if none.is_empty() => none,
                kept => kept + " = ",
            };
            let [one, nothing] = [ns(pipes, &kept)?, ns("xor(8, 0)", "")?];
            Ok::<_, Error>((one - nothing) / f64::from(bytes / 8))
        });
        println!("{pipes:>36} {:>9.2} {:>9.2}", known?, computed?);
    }
    Ok(())
}

/// The statement that does a job.
fn take(job: Job, length: &str) -> String {
    let mask = format!("xor(8, {KEY})");
    match (job.sums, job.masks) {
        (true, true) => format!("s = take(p, 0, {length}) through checksum, {mask}; *w = s;"),
        (true, false) => format!("s = take(p, 0, {length}) through checksum; *w = s;"),
        (false, _) => format!("take(p, 0, {length}) through {mask};"),
    }
}

/// The least of several means of a handler that takes a message of this length.
fn measure_handler(take: &str, bytes: i32) -> Result<u32, Error> {
    let text = format!(
        "handler h {{ rows r[1] of 1024; words c[1]; need {bytes}; p = &r[0]; w = &c[0]; {take} done; }}"
    );
    let handler = exos_ash::parse(&text)?;
    let len = Layout::of(handler.handler()).bytes() as usize;
    let memory = MappedArray::new("row", len, 1)?;
    let counters = Map::percpu_array("counters", 8, Counter::COUNT)?;
    let slots = Map::prog_array(2)?;
    let program = InKernel {
        handler: &handler,
        memory_fd: memory.raw_fd(),
        mac: Mac([2, 0, 0, 0, 0, 1]),
        addresses: vec!["10.1.2.3".parse()?],
        not_from: Vec::new(),
        port: 4000,
        may_be_partial: false,
        way_out: WayOut::Transmit,
    };
    let program = program.program(slots.raw_fd(), counters.raw_fd());
    let program = Prog::load(&program.words(), "pipes", false)?;
    let mut frame = Vec::new();
    let headers = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
        .ipv4([10, 1, 2, 4], [10, 1, 2, 3], 64)
        .udp(50_000, 4000);
    headers.write(&mut frame, &vec![7; bytes as usize])?;
    assert_eq!(program.test_run(&frame)?.verdict, 1, "done: XDP_DROP");
    let mut least = u32::MAX;
    for _ in 0..7 {
        least = least.min(program.test_run_repeated(&frame, RUNS)?.nanoseconds);
    }
    Ok(least)
}

/// The least of several means, once what came of it is right.
fn measure(job: Job, way: Way, bytes: i32, row: &MappedArray) -> Result<u32, Error> {
    let message: Vec<u8> = (0..bytes).map(|i| (i * 7 % 251) as u8).collect();
    let frame = [&[0; MESSAGE as usize][..], &message].concat();
    row.words().iter().for_each(|word| word.store(0, Relaxed));
    let program = program(job, way, bytes, row.raw_fd());
    let program = Prog::load(&program.words(), "pipes", false)?;
    let verdict = program.test_run(&frame)?.verdict;
    if way != Way::Nothing {
        check(job, &message, verdict, row);
    }
    let mut least = u32::MAX;
    for _ in 0..7 {
        least = least.min(program.test_run_repeated(&frame, RUNS)?.nanoseconds);
    }
    Ok(least)
}

fn check(job: Job, message: &[u8], verdict: u32, row: &MappedArray) {
    let words: Vec<u64> = message
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .collect();
    if job.takes {
        let key = if job.masks { KEY } else { 0 };
        let taken = row.words().iter().map(|word| word.load(Relaxed) ^ key);
        assert!(taken.take(words.len()).eq(words), "{}", job.name);
    }
    if job.sums {
        let sum = Sum::of(message).value();
        assert_eq!(u16::from_be(verdict as u16), sum, "{}", job.name);
    }
}

/// Ends with the folded sum in the place of a verdict.
fn program(job: Job, way: Way, bytes: i32, row_fd: i32) -> Program {
    let mut asm = Assembler::new();
    let short = asm.label();
    asm.set(CONTEXT, Reg::R1);
    asm.load(Size::Word, FROM, CONTEXT, 0);
    asm.load(Size::Word, Reg::R3, CONTEXT, 4);
    asm.alu(Alu::Add, FROM, MESSAGE);
    asm.set(Reg::R1, FROM);
    asm.alu(Alu::Add, Reg::R1, bytes);
    asm.jump_if(Reg::R1, Condition::Greater, Reg::R3, short);
    asm.load_map_value(ROW, row_fd, 0);
    asm.set(SUM, 0);
    set_wide(&mut asm, Reg::R5, KEY);
    match way {
        Way::Nothing => {}
        Way::OneLoop => one_loop(&mut asm, job, bytes),
        Way::Helpers => helpers(&mut asm, job, bytes),
    }
    fold(&mut asm, SUM, Reg::R1);
    asm.set(Reg::R0, SUM);
    asm.exit();
    asm.bind(short);
    asm.set(Reg::R0, 0);
    asm.exit();
    Program::new(asm.finish().expect("a short program"))
}

fn one_loop(asm: &mut Assembler, job: Job, bytes: i32) {
    let (word, half) = (Reg::R1, Reg::R2);
    // An addition waits for the last one to the same sum, so there are two.
    let other_sum = Reg::R0;
    asm.set(other_sum, 0);
    for at in (0..bytes as usize).step_by(8) {
        asm.load(Size::Double, word, FROM, at);
        if job.sums {
            asm.set(half, word);
            asm.alu(Alu::ShiftRight, half, 32);
            asm.alu(Alu::Add, SUM, half);
            asm.alu32(Alu::Move, half, word);
            asm.alu(Alu::Add, other_sum, half);
        }
        if job.masks {
            asm.alu(Alu::Xor, word, Reg::R5);
        }
        if job.takes {
            asm.store(Size::Double, ROW, at, word);
        }
    }
    asm.alu(Alu::Add, SUM, other_sum);
}

fn helpers(asm: &mut Assembler, job: Job, bytes: i32) {
    if job.sums {
        for begin in (0..bytes).step_by(SUMMED_MAX as usize) {
            asm.set(Reg::R1, 0);
            asm.set(Reg::R2, 0);
            asm.set(Reg::R3, FROM);
            asm.alu(Alu::Add, Reg::R3, begin);
            asm.set(Reg::R4, (bytes - begin).min(SUMMED_MAX));
            asm.set(Reg::R5, SUM);
            asm.call(Helper::CsumDiff);
            asm.set(SUM, Reg::R0);
        }
    }
    if job.takes {
        asm.set(Reg::R1, CONTEXT);
        asm.set(Reg::R2, MESSAGE);
        asm.set(Reg::R3, ROW);
        asm.set(Reg::R4, bytes);
        asm.call(Helper::XdpLoadBytes);
    }
    if job.masks {
        set_wide(asm, Reg::R5, KEY);
        for at in (0..bytes as usize).step_by(8) {
            asm.load(Size::Double, Reg::R1, ROW, at);
            asm.alu(Alu::Xor, Reg::R1, Reg::R5);
            asm.store(Size::Double, ROW, at, Reg::R1);
        }
    }
}
