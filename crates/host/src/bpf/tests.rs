//! Against the real kernel. Without the privilege these tests say that they were skipped.

use super::syscall::*;
use super::*;
use crate::kernel::Version;
use std::io;
use std::os::fd::AsFd;

/// Past the test harness, which keeps to itself what passing tests print.
pub(super) fn skipped(why: &str) {
    let _ = io::Write::write_all(&mut io::stderr(), format!("SKIPPED: {why}\n").as_bytes());
}

/// Whether the test can run; says so when not.
fn allowed(test: &str) -> bool {
    match permitted() {
        Ok(()) => true,
        Err(error) => {
            skipped(&format!("{test}: {error}"));
            false
        }
    }
}

/// `r0 = verdict; exit`.
fn constant(verdict: u32) -> [u64; 2] {
    [u64::from(verdict) << 32 | 0xb7, 0x95]
}

#[test]
fn names_are_cut_and_cleaned() {
    assert_eq!(&object_name("a-b c"), b"a_b_c\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(
        name_text(&object_name("a_name_of_more_than_sixteen")),
        "a_name_of_more_"
    );
}

#[test]
fn cpu_lists_are_counted() {
    for (list, count) in [
        ("0", Some(1)),
        ("0-1", Some(2)),
        ("0-3,8-11", Some(8)),
        ("0-3,8", Some(5)),
        ("", None),
        ("x", None),
        ("0-3,", None),
        ("3-1", None),
        ("1-0", None),
        ("0-18446744073709551615", None),
    ] {
        assert_eq!(map::count_cpus(list), count, "{list}");
    }
}

#[test]
fn a_program_loads_runs_and_has_a_name() {
    if !allowed("a_program_loads_runs_and_has_a_name") {
        return;
    }
    for frags in [false, true] {
        let prog = Prog::load(&constant(1), "bpf-test", frags).unwrap();
        let run = prog.test_run(&[7; 60]).unwrap();
        assert_eq!((run.verdict, run.packet), (1, vec![7; 60]));
        let info = prog.info().unwrap();
        assert_eq!(info.name, "bpf_test");
        assert_eq!(ProgInfo::by_id(info.id).unwrap(), info);
    }
}

#[test]
fn a_refused_program_says_why() {
    if !allowed("a_refused_program_says_why") {
        return;
    }
    // exit without r0.
    let error = Prog::load(&[0x95], "bad", false).unwrap_err();
    assert!(error.log.contains("R0 !read_ok"), "{}", error.log);
    assert!(error.to_string().contains("R0 !read_ok"), "{error}");
}

/// A map is there as long as anybody has it, no matter who made it.
#[test]
fn a_map_exists_while_somebody_has_it() {
    if !allowed("a_map_exists_while_somebody_has_it") {
        return;
    }
    let map = Map::ringbuf("test", 4096).unwrap();
    let id = map.id().unwrap();
    let kept = map.as_fd().try_clone_to_owned().unwrap();
    drop(map);
    assert!(map_exists(id).unwrap());
    drop(kept);
    // The kernel takes it away in its own time.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while map_exists(id).unwrap() {
        assert!(std::time::Instant::now() < until, "nobody has it");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn maps_store_find_and_forget() {
    if !allowed("maps_store_find_and_forget") {
        return;
    }
    let hash = Map::hash("test", 2, 3, 4).unwrap();
    assert_eq!(hash.lookup(b"ab").unwrap(), None);
    hash.update(b"ab", b"xyz").unwrap();
    assert_eq!(hash.lookup(b"ab").unwrap().as_deref(), Some(&b"xyz"[..]));
    assert!(hash.delete(b"ab").unwrap());
    assert!(!hash.delete(b"ab").unwrap());

    let array = Map::array("test", 8, 2).unwrap();
    array
        .update(&1u32.to_ne_bytes(), &9u64.to_ne_bytes())
        .unwrap();
    assert_eq!(
        array.lookup(&1u32.to_ne_bytes()).unwrap().unwrap(),
        9u64.to_ne_bytes()
    );
    assert!(
        array
            .update(&2u32.to_ne_bytes(), &9u64.to_ne_bytes())
            .is_err()
    );
}

#[test]
fn percpu_counters_are_summed() {
    if !allowed("percpu_counters_are_summed") {
        return;
    }
    let map = Map::percpu_array("test", 16, 1).unwrap();
    let mut value = Vec::new();
    let n = possible_cpus().unwrap() as u64;
    for cpu in 0..n {
        value.extend(cpu.to_ne_bytes());
        value.extend(1u64.to_ne_bytes());
    }
    map.update(&0u32.to_ne_bytes(), &value).unwrap();
    assert_eq!(map.sum_percpu_u64(0).unwrap(), [n * (n - 1) / 2, n]);
}

/// In a process of its own, which can open nothing more: it cannot ask any more how many copies the kernel writes.
#[test]
fn role_without_descriptors() {
    if exos_testing::role().is_none() {
        return;
    }
    let map = Map::percpu_array("test", 16, 1).unwrap();
    let before = map.lookup(&0u32.to_ne_bytes()).unwrap().unwrap();
    let none = rustix::process::Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, none).unwrap();
    assert!(std::fs::File::open("/dev/null").is_err());
    assert_eq!(map.lookup(&0u32.to_ne_bytes()).unwrap(), Some(before));
    let error = possible_cpus().unwrap_err().to_string();
    assert!(error.contains("how many CPUs"), "{error}");
    exos_testing::done();
}

/// The kernel writes a copy for each CPU, whatever this process can find out: too little memory for that is overwritten.
#[test]
fn values_have_their_copies_when_no_descriptor_is_left() {
    if !allowed("values_have_their_copies_when_no_descriptor_is_left") {
        return;
    }
    let ended = exos_testing::play("bpf::tests::role_without_descriptors", "short");
    assert!(exos_testing::is_done(ended), "{ended}");
}

#[test]
fn program_slots_are_set_and_cleared() {
    if !allowed("program_slots_are_set_and_cleared") {
        return;
    }
    let slots = Map::prog_array(2).unwrap();
    let prog = Prog::load(&constant(2), "slot", false).unwrap();
    slots.set_fd(0, prog.as_fd()).unwrap();
    assert!(slots.clear(0).unwrap());
    assert!(!slots.clear(0).unwrap());
    assert!(Map::xskmap(4).is_ok());
}

/// On a veth in a namespace of its own: held while the link lives, named to the one that comes second, free afterwards.
#[test]
fn a_link_holds_its_interface_and_lets_go() {
    if !allowed("a_link_holds_its_interface_and_lets_go") {
        return;
    }
    let namespace = match crate::netns::NetNs::anonymous() {
        Ok(namespace) => namespace,
        Err(error) => return skipped(&format!("a_link_holds_its_interface_and_lets_go: {error}")),
    };
    namespace.run(hold_and_let_go).unwrap();
}

fn hold_and_let_go() {
    let netlink = crate::netlink::Netlink::new().unwrap();
    netlink.create_veth("filter0", "filter1").unwrap();
    let ifindex = netlink.link_by_name("filter0").unwrap().index;
    let [first, second] =
        [2, 1].map(|verdict| Prog::load(&constant(verdict), "exos_held", true).unwrap());
    for mode in [XdpMode::Native, XdpMode::Generic] {
        assert!(is_let_go(ifindex));
        let link = Link::attach_xdp(ifindex, &first, mode).unwrap();
        assert_eq!((link.ifindex(), link.mode()), (ifindex, mode));
        let holder = who_holds_xdp(ifindex).unwrap().expect("held");
        assert_eq!(holder.program, first.info().unwrap());

        let refusal = Link::attach_xdp(ifindex, &second, mode).unwrap_err();
        assert!(refusal.to_string().contains("exos_held"), "{refusal}");

        link.update(&second).unwrap();
        let holder = who_holds_xdp(ifindex).unwrap().expect("still held");
        assert_eq!(holder.program.id, second.info().unwrap().id);
    }
    assert!(is_let_go(ifindex));
}

/// Who looks for a link that is not there walks over those that others are making in that moment.
#[test]
fn links_in_the_making_are_passed_over() {
    if !allowed("links_in_the_making_are_passed_over") {
        return;
    }
    let namespace = match crate::netns::NetNs::anonymous() {
        Ok(namespace) => namespace,
        Err(error) => return skipped(&format!("links_in_the_making_are_passed_over: {error}")),
    };
    namespace.run(look_while_another_attaches).unwrap();
}

fn look_while_another_attaches() {
    const NO_PROGRAM: u32 = 0;
    let netlink = crate::netlink::Netlink::new().unwrap();
    netlink.create_veth("busy0", "busy1").unwrap();
    let ifindex = netlink.link_by_name("busy0").unwrap().index;
    // Up, so that attaching takes its time.
    netlink.set_up(ifindex, true).unwrap();
    let prog = Prog::load(&constant(2), "exos_busy", true).unwrap();
    std::thread::scope(|scope| {
        let attaching = scope.spawn(|| {
            let mut made = 0;
            while made < 100 {
                // Who looks at a link keeps it for a moment.
                made += u32::from(Link::attach_xdp(ifindex, &prog, XdpMode::Native).is_ok());
            }
        });
        while !attaching.is_finished() {
            assert_eq!(super::info::link_to(ifindex, NO_PROGRAM).unwrap(), None);
        }
    });
}

/// Nobody holds it, or will in a moment: anyone who lists the machine's links holds each of them while it looks.
fn is_let_go(ifindex: u32) -> bool {
    (0..1200).any(|_| {
        who_holds_xdp(ifindex).unwrap().is_none() || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            false
        }
    })
}

#[test]
fn attaching_to_no_interface_says_so() {
    if !allowed("attaching_to_no_interface_says_so") {
        return;
    }
    let prog = Prog::load(&constant(2), "nowhere", false).unwrap();
    let error = Link::attach_xdp(0x7fff_fff0, &prog, XdpMode::Generic).unwrap_err();
    assert!(error.mend.unwrap().contains("no such interface"));
    assert_eq!(who_holds_xdp(0x7fff_fff0).unwrap(), None);
}

/// A directory in a BPF file system, with the names that a test made; taken away at its end.
struct Pins(std::path::PathBuf);

impl Pins {
    fn new(test: &str) -> Option<Self> {
        let root = std::path::Path::new("/sys/fs/bpf");
        if let Err(error) = require_bpffs(root) {
            skipped(&format!("{test}: {error}"));
            return None;
        }
        let pins = Self(root.join(format!("{test}-{}", std::process::id())));
        // A run that was killed may have had our process's number.
        pins.remove();
        std::fs::create_dir(&pins.0).unwrap();
        Some(pins)
    }

    fn remove(&self) {
        // A BPF file system does not delete recursively by itself.
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        self.remove();
    }
}

#[test]
fn pinned_objects_are_found_again() {
    if !allowed("pinned_objects_are_found_again") {
        return;
    }
    let Some(pins) = Pins::new("exos_gate_pins") else {
        return;
    };
    let path = pins.0.join("map");
    {
        let map = Map::create(MapKind::LruHash, "kept", 4, 8, 16).unwrap();
        map.update(&[1, 2, 3, 4], &[7; 8]).unwrap();
        map.pin(&path).unwrap();
        let taken = map.pin(&path).unwrap_err();
        assert!(taken.to_string().contains("remove it first"), "{taken}");
    }
    let map = Map::open_pinned(&path).unwrap();
    assert!(map.is_like(MapKind::LruHash, 4, 8, 16));
    assert!(!map.is_like(MapKind::LruHash, 4, 8, 32));
    assert_eq!(
        map.lookup(&[1, 2, 3, 4]).unwrap().as_deref(),
        Some(&[7; 8][..])
    );
    assert_eq!(map.keys().unwrap(), [vec![1, 2, 3, 4]]);

    let path = pins.0.join("program");
    Prog::load(&constant(1), "kept", false)
        .unwrap()
        .pin(&path)
        .unwrap();
    let prog = Prog::open_pinned(&path).unwrap();
    assert_eq!(prog.test_run(&[0; 60]).unwrap().verdict, 1);
    assert!(Map::open_pinned(&pins.0.join("nothing")).is_err());
    let elsewhere = tempfile::tempdir().unwrap();
    let refused = map.pin(&elsewhere.path().join("map")).unwrap_err();
    assert!(refused.to_string().contains("mount -t bpf"), "{refused}");
}

/// Closing a pinned link detaches nothing; taking the name away does.
#[test]
fn pinned_links_outlive_their_descriptor() {
    if !allowed("pinned_links_outlive_their_descriptor") {
        return;
    }
    let namespace = match crate::netns::NetNs::anonymous() {
        Ok(namespace) => namespace,
        Err(error) => return skipped(&format!("pinned_links_outlive_their_descriptor: {error}")),
    };
    let Some(pins) = Pins::new("exos_gate_links") else {
        return;
    };
    namespace.run(|| pin_links(&pins.0)).unwrap();
}

fn pin_links(directory: &std::path::Path) {
    let netlink = crate::netlink::Netlink::new().unwrap();
    netlink.create_veth("gate0", "gate1").unwrap();
    let ifindex = netlink.link_by_name("gate0").unwrap().index;
    let path = directory.join("xdp");
    let prog = Prog::load(&constant(2), "exos_kept", true).unwrap();
    let link = Link::attach_xdp(ifindex, &prog, XdpMode::Native).unwrap();
    link.pin(&path).unwrap();
    drop(link);
    assert!(who_holds_xdp(ifindex).unwrap().is_some());
    let link = Link::open_pinned(&path).unwrap();
    assert_eq!((link.ifindex(), link.mode()), (ifindex, XdpMode::Native));

    let tc = directory.join("tcx");
    let classifier = Prog::load_classifier(&constant(0), "exos_tc").unwrap();
    let has_links = crate::kernel::version().unwrap() >= Version { major: 6, minor: 6 };
    let hooks = [TcxHook::Ingress, TcxHook::Egress].into_iter();
    for hook in hooks.filter(|_| has_links) {
        let link = TcxLink::attach(ifindex, &classifier, hook).unwrap();
        link.update(&classifier).unwrap();
        link.pin(&tc).unwrap();
        drop(link);
        let link = TcxLink::open_pinned(&tc).unwrap();
        assert_eq!(link.ifindex(), ifindex);
        assert!(Link::open_pinned(&tc).is_err(), "it is no XDP link");
        std::fs::remove_file(&tc).unwrap();
    }
    assert!(TcxLink::open_pinned(&path).is_err(), "it is no tcx link");
    std::fs::remove_file(&path).unwrap();
    drop(link);
    assert!(is_let_go(ifindex));
    let gone = TcxLink::attach(0x7fff_fff0, &classifier, TcxHook::Ingress).unwrap_err();
    let why = if has_links {
        "no such interface"
    } else {
        "Linux 6.6"
    };
    assert!(gone.mend.unwrap().contains(why));
}

#[test]
fn a_classifier_sees_its_interfaces() {
    if !allowed("a_classifier_sees_its_interfaces") {
        return;
    }
    // r0 = *(u32 *)(r1 + 36): the interface that the packet came in by; exit.
    let prog = Prog::load_classifier(&[0x0000_0000_0024_1061, 0x95], "which").unwrap();
    let context = SkbContext {
        ifindex: 1,
        ingress_ifindex: 5,
    };
    assert_eq!(prog.test_run_skb(&[0; 60], context, 1).unwrap().verdict, 5);
}

/// What user space writes to a mapped array a look-up gives, and the other way round, without any call between.
#[test]
fn an_action_runs_and_is_attached_nowhere() {
    if !allowed("an_action_runs_and_is_attached_nowhere") {
        return;
    }
    // r0 = *(u32 *)(r1 + 36): ingress_ifindex; exit
    let program = Prog::load_action(&[36 << 16 | 0x1061, 0x95], "action").unwrap();
    program.run_batch(&[0; 14], 0, 3).unwrap();
    program.run_batch(&[0; 3000], 1, 1).unwrap();
    let context = SkbContext {
        ingress_ifindex: 1,
        ..SkbContext::default()
    };
    let run = program.test_run_skb(&[0; 60], context, 1).unwrap();
    assert_eq!(run.verdict, 1);
    assert!(program.run_batch(&[0; 13], 0, 1).is_err());
    assert!(program.run_batch(&[0; 9000], 0, 1).is_err());
    Link::attach_xdp(1, &program, XdpMode::Generic).unwrap_err();
    TcxLink::attach(1, &program, TcxHook::Ingress).unwrap_err();
}

#[test]
fn a_mapped_array_is_one_memory() {
    if !allowed("a_mapped_array_is_one_memory") {
        return;
    }
    use std::sync::atomic::Ordering::Relaxed;
    // Not of whole pages, and of several.
    for entries in [1, 7, 1000] {
        let array = MappedArray::new("mapped", 24, entries).unwrap();
        let words = array.words();
        assert_eq!(words.len(), 3 * entries as usize);
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
        let last = entries - 1;
        words[3 * last as usize + 2].store(0x0102_0304_0506_0708, Relaxed);
        let value = array.map().lookup(&last.to_ne_bytes()).unwrap().unwrap();
        assert_eq!(value[16..], 0x0102_0304_0506_0708u64.to_ne_bytes());
        array.map().update(&0u32.to_ne_bytes(), &[9; 24]).unwrap();
        assert_eq!(words[1].load(Relaxed), u64::from_ne_bytes([9; 8]));
    }
}

/// The mapping keeps what it is of, and nothing is kept when it goes.
#[test]
fn a_mapped_array_goes_with_its_owner() {
    if !allowed("a_mapped_array_goes_with_its_owner") {
        return;
    }
    let array = MappedArray::new("mapped", 64, 100).unwrap();
    let id = array.map().id().unwrap();
    drop(array);
    let gone = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        !map_exists(id).unwrap()
    });
    assert!(gone, "the kernel frees it a while after");
}

/// What the verifier does not accept is no lack of privilege, and is not told as one.
#[test]
fn what_the_verifier_refuses_is_not_blamed_on_privilege() {
    if !allowed("what the verifier refuses") {
        return;
    }
    // exit, with nothing in r0
    let refusal = Prog::load(&[0x0000_0000_0000_0095], "exos_test", false);
    let error = refusal.expect_err("r0 has no value").error;
    assert!(error.is(libc::EACCES), "{error}");
    assert!(error.to_string().contains("verifier"), "{error}");
    assert!(!error.to_string().contains("root"), "{error}");
}

#[test]
fn what_is_frozen_is_changed_by_nobody() {
    if !allowed("what_is_frozen_is_changed_by_nobody") {
        return;
    }
    let map = Map::array("test", 8, 2).unwrap();
    map.update(&0_u32.to_ne_bytes(), &[1; 8]).unwrap();
    map.freeze().unwrap();
    let refused = map.update(&0_u32.to_ne_bytes(), &[2; 8]).unwrap_err();
    assert!(refused.is(libc::EPERM), "{refused}");
    assert_eq!(map.lookup(&0_u32.to_ne_bytes()).unwrap(), Some(vec![1; 8]));
}
