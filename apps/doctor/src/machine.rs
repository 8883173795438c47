//! What concerns the whole machine: kernel, privileges, limits, and the system calls that we live on.

use crate::check::{About, Check, remedy};
use crate::modes::lends_queues;
use crate::trial;
use exos_host::bpf::{Map, Prog, TestRun};
use exos_host::caps::{self, CapabilitySet};
use exos_host::{Error, affinity, kernel, limits, uring};
use exos_link::BOUND_MAPPING_KERNEL;
use rustix::net::{AddressFamily, SocketType, socket};
use std::path::Path;
use std::process::{Command, Stdio};

/// UMEM of one ring of the usual size: 8192 frames of 2048 bytes.
const UMEM_BYTES: u64 = 8192 * 2048;

/// All checks of the machine, in the order in which they build on each other.
pub fn examine() -> Vec<Check> {
    let mut checks = vec![kernel_version()];
    checks.extend(caps::NEEDED.iter().map(capability));
    checks.extend([
        af_xdp(),
        bpf_load(),
        bpf_map(),
        trial::examine(),
        bpf_jit(),
        bpf_unprivileged(),
        memlock(),
        io_uring(),
        tun(),
        user_namespaces(),
    ]);
    checks.extend([lending(), cores()]);
    checks.extend([tool("nginx", "nginx"), tool("wrk", "wrk")]);
    checks
}

fn kernel_version() -> Check {
    let what = format!("kernel {}", kernel::release());
    match kernel::check() {
        Ok(_) => Check::ok(
            "kernel",
            what,
            format!("{} or later is needed", kernel::MINIMUM),
        ),
        Err(e) => Check::fail("kernel", what, e.what, e.mend.unwrap_or_default()),
    }
}

/// Without privilege `exos serve` still works over a TAP device; what needs it is said for each.
fn capability(&(set, name, purpose): &(CapabilitySet, &'static str, &'static str)) -> Check {
    let meaning = format!("needed to {purpose}");
    if caps::has(set) {
        return Check::ok("capability", name, meaning);
    }
    let what = format!("no {name}");
    if set == CapabilitySet::SYS_ADMIN {
        return Check::warn("capability", what, meaning, "run as root what needs it");
    }
    Check::fail(
        "capability",
        what,
        meaning,
        "run as root; without root, `exos serve` uses a TAP device instead of AF_XDP",
    )
}

fn af_xdp() -> Check {
    let about = About(
        "af-xdp",
        "AF_XDP is how packets reach a program past the kernel's stack",
    );
    let Err(e) = socket(AddressFamily::XDP, SocketType::RAW, None) else {
        return about.ok("AF_XDP sockets");
    };
    let mend = match e {
        rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => "run as root, or with CAP_NET_RAW",
        _ => "boot a kernel with CONFIG_XDP_SOCKETS=y, or leave the sandbox that forbids them",
    };
    about.fail(Error::io("no AF_XDP socket", e).sentence(), mend)
}

/// `mov r0, 2; exit`: passes every packet to the host's stack.
const PASS_ALL: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];
const XDP_PASS: u32 = 2;

/// A program is loaded and run on a packet, for real.
fn bpf_load() -> Check {
    let about = About(
        "bpf-load",
        "filters are programs that the kernel verifies, compiles and runs",
    );
    let run = Prog::load(&PASS_ALL, "exos_doctor", false)
        .map_err(Error::from)
        .and_then(|p| p.test_run(&[0; 64]));
    match run {
        Ok(run) if run.verdict == XDP_PASS => about.ok("a test program loads and runs"),
        Ok(TestRun { verdict, .. }) => about.fail(
            format!("a test program gave verdict {verdict} instead of {XDP_PASS}"),
            "report this kernel to us",
        ),
        Err(e) => failed(about, &e),
    }
}

/// What a daemon of this kernel gives to programs. Both are newer than the kernel that is needed.
fn lending() -> Check {
    let id = "lending";
    if lends_queues() {
        let meaning =
            "`exos daemon` lends queues, and programs behind it send several segments at once";
        return Check::ok(id, "all that a daemon can lend", meaning);
    }
    let (major, minor) = BOUND_MAPPING_KERNEL;
    Check::warn(
        id,
        format!("before Linux {major}.{minor} a daemon lends less"),
        "no queues of an interface (mode direct), and before 6.2 programs behind it send segments one by one",
        format!(
            "use Linux {major}.{minor} or newer where that matters; docs/kernels.md says what each program needs"
        ),
    )
}

fn bpf_map() -> Check {
    let about = About(
        "bpf-xskmap",
        "the map by which a filter finds the socket of a program",
    );
    match Map::xskmap(1) {
        Ok(_) => about.ok("a socket map can be made"),
        Err(e) => failed(about, &e),
    }
}

/// A failed check from an error: its own remedy, or the usual one.
fn failed(about: About, error: &Error) -> Check {
    let mend = remedy(error, "run as root, or with CAP_BPF and CAP_NET_ADMIN");
    about.fail(error.sentence(), mend)
}

/// Seen on a program of ours where we may look, otherwise read from the switch.
fn bpf_jit() -> Check {
    let about = About(
        "bpf-jit",
        "compiled filters run several times faster than interpreted ones",
    );
    let program = Prog::load(&PASS_ALL, "exos_doctor", false).ok();
    let compiled = program
        .and_then(|p| p.info().ok())
        .is_some_and(|info| info.jited_bytes > 0);
    let mend = "turn it on: sysctl -w net.core.bpf_jit_enable=1";
    match sysctl("net/core/bpf_jit_enable").as_deref() {
        _ if compiled => about.ok("the kernel compiles BPF programs"),
        Some("0") => about.warn("the BPF compiler is off", mend),
        Some(_) => about.ok("the BPF compiler is on"),
        None => {
            let meaning = "it is on unless somebody turned it off";
            Check::ok(about.0, "the BPF compiler's switch is hidden here", meaning)
        }
    }
}

/// Either way works for us: programs get their filters from the one that is privileged.
fn bpf_unprivileged() -> Check {
    let id = "bpf-unprivileged";
    match sysctl("kernel/unprivileged_bpf_disabled").as_deref() {
        Some("0") => Check::warn(
            id,
            "everybody may load BPF programs",
            "not needed here, and known to widen what an intruder can do",
            "turn it off: sysctl -w kernel.unprivileged_bpf_disabled=1",
        ),
        _ => Check::ok(
            id,
            "only the privileged may load BPF programs",
            "as it should be; ours need nothing else",
        ),
    }
}

fn memlock() -> Check {
    let about = About(
        "memlock",
        "bounds the packet memory of a program without CAP_IPC_LOCK",
    );
    let Some(limit) = limits::memlock() else {
        return about.ok("locked memory is not limited");
    };
    let mebibytes = |bytes: u64| bytes / (1024 * 1024);
    let what = format!("locked memory up to {} MiB", mebibytes(limit));
    if limit >= UMEM_BYTES {
        return about.ok(what);
    }
    if caps::has(CapabilitySet::IPC_LOCK) {
        let meaning = "does not bind this process, which has CAP_IPC_LOCK";
        return Check::ok(about.0, what, meaning);
    }
    Check::warn(
        about.0,
        format!("locked memory only up to {} MiB", mebibytes(limit)),
        format!("{}; one ring wants {} MiB", about.1, mebibytes(UMEM_BYTES)),
        "raise it: ulimit -l unlimited as root, or LimitMEMLOCK=infinity in the service",
    )
}

/// A file is read, for real.
fn io_uring() -> Check {
    let about = About(
        "io-uring",
        "by it `exos serve` reads long files without waiting; without it a thread does, which costs more",
    );
    let Err(e) = uring::examine() else {
        return about.ok("files can be read by io_uring");
    };
    let mend = match sysctl("kernel/io_uring_disabled").as_deref() {
        Some("1" | "2") => "allow it: sysctl -w kernel.io_uring_disabled=0 as root",
        _ => "leave the sandbox that forbids it, or boot Linux 5.19 or later",
    };
    about.warn(format!("no io_uring: {e}"), mend)
}

fn tun() -> Check {
    let about = About(
        "tun",
        "a TAP device is the way for packets where AF_XDP is not to be had",
    );
    let mut options = std::fs::File::options();
    match options.read(true).write(true).open("/dev/net/tun") {
        Ok(_) => about.ok("/dev/net/tun opens"),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => about.warn(
            "/dev/net/tun may not be opened",
            "allow it: chmod 666 /dev/net/tun as root",
        ),
        Err(e) => about.warn(
            format!("/dev/net/tun does not open: {e}"),
            "load its module: modprobe tun as root",
        ),
    }
}

/// Tried by running a command in one; the settings only explain a refusal.
fn user_namespaces() -> Check {
    let about = About(
        "user-namespaces",
        "they let users without root try exos in a network of their own",
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "true"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    match command.stderr(Stdio::null()).status() {
        Ok(status) if status.success() => about.ok("user namespaces can be made"),
        Ok(_) => about.warn("user namespaces cannot be made", namespace_remedy()),
        Err(_) => about.warn(
            "user namespaces could not be tried",
            "install unshare: apt install util-linux",
        ),
    }
}

/// Which of the switches of different distributions forbids it.
fn namespace_remedy() -> String {
    let switches = [
        (
            "user/max_user_namespaces",
            "0",
            "sysctl -w user.max_user_namespaces=15000",
        ),
        (
            "kernel/unprivileged_userns_clone",
            "0",
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ];
    let closed = switches
        .iter()
        .find(|(setting, closed, _)| sysctl(setting).as_deref() == Some(*closed));
    match closed {
        Some((_, _, command)) => format!("allow them: {command} as root"),
        None => "leave the container or sandbox that forbids them, or run as root".to_owned(),
    }
}

fn cores() -> Check {
    let about = About(
        "cores",
        "a program of ours keeps one core busy under load; its peer needs another",
    );
    match affinity::allowed().map_or(1, |cores| cores.len()) {
        0 | 1 => about.warn("1 core", "give the machine a second core before measuring"),
        cores => about.ok(format!("{cores} cores")),
    }
}

/// Programs that only measurements need.
fn tool(program: &'static str, package: &str) -> Check {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<_> = std::env::split_paths(&paths).collect();
    places.extend(["/usr/sbin", "/usr/local/sbin"].map(|p| Path::new(p).to_owned()));
    let about = About("tool", "`exos bench http` measures with it");
    if places.iter().any(|place| place.join(program).is_file()) {
        return about.ok(format!("{program} is installed"));
    }
    let mend = format!("apt install {package}");
    about.warn(format!("{program} is not installed"), mend)
}

fn sysctl(setting: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc/sys").join(setting)).ok()?;
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;

    #[test]
    fn whatever_is_not_ok_says_how_to_mend_it() {
        for check in examine() {
            assert_eq!(check.mend.is_none(), check.mark == Mark::Ok, "{check:?}");
            assert!(
                !check.what.is_empty() && !check.meaning.is_empty(),
                "{check:?}"
            );
            assert!(check.mend.is_none_or(|m| !m.is_empty()));
        }
    }

    #[test]
    fn the_test_program_is_what_it_says() {
        // Opcode 0xb7 is a 64-bit move of an immediate, in the upper half; 0x95 is exit.
        assert_eq!(
            (PASS_ALL[0] & 0xff, PASS_ALL[0] >> 32, PASS_ALL[1]),
            (0xb7, XDP_PASS.into(), 0x95)
        );
    }
}
