//! Loading XDP and traffic control programs, and running them on a packet without an interface.

use super::info::ProgInfo;
use super::pin;
use super::syscall::{Attr, Command, NAME_LEN, bpf, bpf_fd, failed, name_text, object_name};
use crate::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_SCHED_ACT: u32 = 4;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_PROG_TYPE_LSM: u32 = 29;
const BPF_LSM_MAC: u32 = 27;
const BPF_XDP: u32 = 37;
/// The program understands packets in several buffers (Linux 5.18).
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// Frames are the kernel's own, and verdicts are carried out (Linux 5.18).
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
/// The verifier log that is asked for after a failure. Longer logs are cut at the front by newer kernels and at
/// the end by older ones; either way the reason of small generated programs fits.
const LOG_BYTES: usize = 1 << 20;
/// The verifier gives EAGAIN when a signal interrupts it; libbpf tries as often.
const LOAD_ATTEMPTS: usize = 5;

/// A loaded program.
#[derive(Debug)]
pub struct Prog {
    fd: OwnedFd,
}

/// The interfaces that a test run pretends: indices in the calling thread's network namespace, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkbContext {
    /// Where the program runs.
    pub ifindex: u32,
    /// Where the packet came in.
    pub ingress_ifindex: u32,
}

/// Words of `struct __sk_buff`: up to `hwtstamp`.
const SKB_CONTEXT_WORDS: usize = 48;
/// Its words `ingress_ifindex` and `ifindex`.
const SKB_INGRESS_IFINDEX: usize = 9;
const SKB_IFINDEX: usize = 10;

/// A program was refused: the error, and the verifier's log (may be empty).
#[derive(Debug)]
pub struct LoadError {
    /// What failed and how to mend it.
    pub error: Error,
    /// The verifier's words, as the kernel gave them.
    pub log: String,
}

/// What a test run gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// The program's verdict. XDP: `XDP_ABORTED` 0, `DROP` 1, `PASS` 2, `TX` 3, `REDIRECT` 4. Traffic control:
    /// `TCX_NEXT` -1 as unsigned, `PASS` 0, `DROP` 2, `REDIRECT` 7.
    pub verdict: u32,
    /// Mean nanoseconds of one repetition, as measured by the kernel.
    pub nanoseconds: u32,
    /// The packet afterwards.
    pub packet: Vec<u8>,
}

#[repr(C)]
struct LoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; NAME_LEN],
    prog_ifindex: u32,
    expected_attach_type: u32,
    /// `prog_btf_fd` to `line_info_cnt`: nothing is told about functions and lines.
    debugging: [u32; 9],
    attach_btf_id: u32,
}
// SAFETY: the prefix for BPF_PROG_LOAD, no implicit padding; `load_once` takes the addresses from live slices.
unsafe impl Attr for LoadAttr {}

#[repr(C)]
struct TestRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}
// SAFETY: the prefix for BPF_PROG_TEST_RUN, padding explicit; each call takes the addresses from slices that outlive it.
unsafe impl Attr for TestRunAttr {}

impl TestRunAttr {
    /// A run of `prog` on these bytes `repeat` times, with this context; what comes of them is not asked for.
    fn new(prog: &Prog, packet: &[u8], context: &[u32], repeat: u32) -> Self {
        let ctx_in = if context.is_empty() {
            0
        } else {
            context.as_ptr() as u64
        };
        Self {
            prog_fd: prog.raw_fd() as u32,
            retval: 0,
            data_size_in: packet.len() as u32,
            data_size_out: 0,
            data_in: packet.as_ptr() as u64,
            data_out: 0,
            repeat,
            duration: 0,
            ctx_size_in: size_of_val(context) as u32,
            ctx_size_out: 0,
            ctx_in,
            ctx_out: 0,
            flags: 0,
            cpu: 0,
            batch_size: 0,
            padding: 0,
        }
    }
}

impl Prog {
    /// Verify, compile and load `insns` as an XDP program called `name`.
    ///
    /// `frags` says that the program may see packets that span buffers: its view then ends with the first one.
    /// On failure the program is loaded once more with logging, so the error carries the verifier's reason; not when it was
    /// too long, which takes the verifier long to find out, and says all.
    pub fn load(insns: &[u64], name: &str, frags: bool) -> Result<Self, LoadError> {
        let kind = Kind::Xdp { frags };
        Self::load_kind(insns, name, kind)
    }

    /// Loads a traffic control program (`BPF_PROG_TYPE_SCHED_CLS`).
    pub fn load_classifier(insns: &[u64], name: &str) -> Result<Self, LoadError> {
        Self::load_kind(insns, name, Kind::Classifier)
    }

    /// Loads an action of traffic control (`BPF_PROG_TYPE_SCHED_ACT`), which bpf(2) attaches to nothing: who holds its
    /// descriptor, but no privilege, can run it, and no more.
    pub fn load_action(insns: &[u64], name: &str) -> Result<Self, LoadError> {
        Self::load_kind(insns, name, Kind::Action)
    }

    /// Loads a program that is asked before a function of the kernel's ([`super::Question`]), which has this number there.
    pub(super) fn load_question(
        insns: &[u64],
        name: &str,
        function: i32,
    ) -> Result<Self, LoadError> {
        let function = function as u32;
        Self::load_kind(insns, name, Kind::Question { function })
    }

    fn load_kind(insns: &[u64], name: &str, kind: Kind) -> Result<Self, LoadError> {
        let first = match load_once(insns, name, kind, &mut []) {
            Ok(fd) => return Ok(Self { fd }),
            Err(error) => error,
        };
        if first.raw_os_error() == Some(libc::E2BIG) {
            return Err(refused(name, insns.len(), first, &[]));
        }
        let mut log = vec![0; LOG_BYTES];
        match load_once(insns, name, kind, &mut log) {
            Ok(fd) => Ok(Self { fd }),
            Err(_) => Err(refused(name, insns.len(), first, &log)),
        }
    }

    /// Give it a name in a BPF file system, so that it outlives this process.
    pub fn pin(&self, path: &Path) -> Result<(), Error> {
        pin::pin(self.fd.as_fd(), path)
    }

    /// Open the program of this name.
    pub fn open_pinned(path: &Path) -> Result<Self, Error> {
        let fd = pin::open(path)?;
        // Fails when it is something else.
        ProgInfo::of_fd(fd.as_fd())?;
        Ok(Self { fd })
    }

    /// The program of this number in the kernel, if there is one. Needs `CAP_BPF` and `CAP_SYS_ADMIN`.
    pub fn by_id(id: u32) -> Result<Option<Self>, Error> {
        let found = super::info::prog_by_id(id)?;
        Ok(found.map(|fd| Self { fd }))
    }

    /// A program that somebody has passed.
    pub fn over(fd: OwnedFd) -> Result<Self, Error> {
        // Fails when it is something else.
        ProgInfo::of_fd(fd.as_fd())?;
        Ok(Self { fd })
    }

    /// Run once on `packet` (at least 14 bytes) as if it came in on queue 0 of the loopback interface.
    pub fn test_run(&self, packet: &[u8]) -> Result<TestRun, Error> {
        self.test_run_repeated(packet, 1)
    }

    /// Run `repeat` times; the time is the mean, the verdict and packet those of the last run.
    pub fn test_run_repeated(&self, packet: &[u8], repeat: u32) -> Result<TestRun, Error> {
        self.test_run_with(packet, repeat, &[])
    }

    /// Run a traffic control program `repeat` times on a packet of these interfaces, which must exist when not 0.
    pub fn test_run_skb(
        &self,
        packet: &[u8],
        context: SkbContext,
        repeat: u32,
    ) -> Result<TestRun, Error> {
        let mut words = [0u32; SKB_CONTEXT_WORDS];
        words[SKB_INGRESS_IFINDEX] = context.ingress_ifindex;
        words[SKB_IFINDEX] = context.ifindex;
        self.test_run_with(packet, repeat, &words)
    }

    fn test_run_with(&self, packet: &[u8], repeat: u32, context: &[u32]) -> Result<TestRun, Error> {
        // XDP may grow a packet by its headroom and tailroom, both inside one page.
        let mut out = vec![0; packet.len() + 4096];
        let mut attr = TestRunAttr {
            data_size_out: out.len() as u32,
            data_out: out.as_mut_ptr() as u64,
            ..TestRunAttr::new(self, packet, context, repeat)
        };
        bpf(Command::ProgTestRun, &mut attr).map_err(|source| {
            failed(
                format!(
                    "cannot test the program on a packet of {} bytes",
                    packet.len()
                ),
                source,
            )
        })?;
        out.truncate(attr.data_size_out as usize);
        Ok(TestRun {
            verdict: attr.retval,
            nanoseconds: attr.duration,
            packet: out,
        })
    }

    /// Runs a traffic control program `repeat` times for what it does, not for what it returns: on a socket buffer that
    /// begins as `frame`, 14 bytes at least and some 3,400 at most, which the program may change from one time to the next.
    /// Takes no privilege but the descriptor.
    ///
    /// `ingress_ifindex`: where the buffer is said to have come in, an interface of the calling thread's network namespace; 0
    /// for none.
    ///
    /// # Errors
    ///
    /// EINTR when a signal came: it ran less often. EINVAL: the frame's headers are cut.
    pub fn run_batch(&self, frame: &[u8], ingress_ifindex: u32, repeat: u32) -> io::Result<()> {
        let mut context = [0_u32; SKB_CONTEXT_WORDS];
        context[SKB_INGRESS_IFINDEX] = ingress_ifindex;
        let context = if ingress_ifindex == 0 {
            &context[..0]
        } else {
            &context[..=SKB_INGRESS_IFINDEX]
        };
        let mut attr = TestRunAttr::new(self, frame, context, repeat);
        bpf(Command::ProgTestRun, &mut attr).map(drop)
    }

    /// Runs an XDP program `repeat` times, each time on a frame of the kernel's, and carries its verdicts out, `batch` frames at a
    /// time. The frame begins as `bytes` do, behind `metadata` bytes of them, a multiple of 4. Pages that are used again, when there
    /// are more frames than a batch has, begin as they were left.
    ///
    /// Takes no privilege but the descriptor; see [`super::Nowhere`] for what makes it quick.
    ///
    /// # Errors
    ///
    /// EINTR when a signal came: some frames have left, and only the program can tell how many. ENOMEM, ENOSPC: no pages, or
    /// too many pools of earlier calls are still in use.
    pub fn run_live(
        &self,
        bytes: &[u8],
        metadata: usize,
        repeat: u32,
        batch: u32,
    ) -> io::Result<()> {
        // struct xdp_md: data and data_end, by their place in `bytes`.
        let context = [metadata as u32, bytes.len() as u32, 0, 0, 0, 0];
        let context = if metadata == 0 { &[] } else { &context[..] };
        let mut attr = TestRunAttr {
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: batch,
            ..TestRunAttr::new(self, bytes, context, repeat)
        };
        bpf(Command::ProgTestRun, &mut attr).map(drop)
    }

    /// The kernel's description of this program.
    pub fn info(&self) -> Result<ProgInfo, Error> {
        ProgInfo::of_fd(self.fd.as_fd())
    }

    /// The descriptor's number.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Prog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Which hook a program is for.
#[derive(Clone, Copy)]
enum Kind {
    Xdp { frags: bool },
    Classifier,
    Action,
    Question { function: u32 },
}

/// One attempt. An empty `log` asks for no log.
fn load_once(insns: &[u64], name: &str, kind: Kind, log: &mut [u8]) -> io::Result<OwnedFd> {
    // Not only a licence: some helpers are denied to programs that do not declare one compatible with the GPL.
    let license = c"Dual MIT/GPL";
    let mut attr = LoadAttr {
        prog_type: match kind {
            Kind::Xdp { .. } => BPF_PROG_TYPE_XDP,
            Kind::Classifier => BPF_PROG_TYPE_SCHED_CLS,
            Kind::Action => BPF_PROG_TYPE_SCHED_ACT,
            Kind::Question { .. } => BPF_PROG_TYPE_LSM,
        },
        insn_cnt: insns.len() as u32,
        insns: insns.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() {
            0
        } else {
            log.as_mut_ptr() as u64
        },
        kern_version: 0,
        prog_flags: match kind {
            Kind::Xdp { frags: true } => BPF_F_XDP_HAS_FRAGS,
            _ => 0,
        },
        prog_name: object_name(name),
        prog_ifindex: 0,
        expected_attach_type: match kind {
            Kind::Xdp { .. } => BPF_XDP,
            Kind::Classifier | Kind::Action => 0,
            Kind::Question { .. } => BPF_LSM_MAC,
        },
        debugging: [0; 9],
        attach_btf_id: match kind {
            Kind::Question { function } => function,
            _ => 0,
        },
    };
    let mut result = bpf_fd(Command::ProgLoad, &mut attr);
    for _ in 1..LOAD_ATTEMPTS {
        match result {
            Err(ref e) if e.raw_os_error() == Some(libc::EAGAIN) => {
                result = bpf_fd(Command::ProgLoad, &mut attr);
            }
            _ => break,
        }
    }
    result
}

/// The error for a program that the kernel did not take.
fn refused(name: &str, count: usize, source: io::Error, log: &[u8]) -> LoadError {
    let log = name_text(log);
    // The verifier ends with a statistics line; the reason is the line before it.
    let reason = log
        .lines()
        .rev()
        .find(|line| {
            !line.is_empty()
                && !line.starts_with("processed ")
                && !line.contains("verification time")
        })
        .map(|line| format!(": {line}"))
        .unwrap_or_default();
    let is_verdict = source.raw_os_error() == Some(libc::EACCES);
    let mut error = failed(
        format!("the kernel refused the program `{name}` of {count} instructions{reason}"),
        source,
    );
    if is_verdict {
        // Without the privilege to load programs it is EPERM. Of some the verifier demands that their author is trusted.
        error = error.mend(match reason.contains("!root") {
            true => "give it CAP_PERFMON, too, or run it as root",
            false => {
                "this kernel's verifier does not accept the program, whatever the privileges: use a later kernel"
            }
        });
    }
    LoadError { error, log }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source.as_ref().map(|e| e as _)
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        error.error
    }
}

/// Whether bpf(2) may load XDP programs here: tries the smallest one.
pub fn permitted() -> Result<(), Error> {
    // r0 = XDP_PASS; exit
    let insns = [0x0000_0002_0000_00b7, 0x0000_0000_0000_0095];
    match Prog::load(&insns, "exos_probe", false) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(Error {
            what: "XDP programs cannot be loaded here".to_owned(),
            ..refusal.error
        }),
    }
}
