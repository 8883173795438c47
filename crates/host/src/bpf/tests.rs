//! Against the real kernel. Without the privilege these tests say that they were skipped.

use super::*;
use std::os::fd::AsFd;

/// Past the test harness, which keeps to itself what passing tests print.
fn skipped(why: &str) {
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
        ("0", 1),
        ("0-1", 2),
        ("0-3,8-11", 8),
        ("0-3,8", 5),
        ("", 0),
        ("x", 0),
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
    for cpu in 0..possible_cpus() as u64 {
        value.extend(cpu.to_ne_bytes());
        value.extend(1u64.to_ne_bytes());
    }
    map.update(&0u32.to_ne_bytes(), &value).unwrap();
    let n = possible_cpus() as u64;
    assert_eq!(map.sum_percpu_u64(0).unwrap(), [n * (n - 1) / 2, n]);
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

/// On a veth in a namespace of its own: held while the link lives, named to whoever comes second, free afterwards.
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

/// Nobody holds it, or will in a moment: whoever lists the machine's links holds each of them while it looks.
fn is_let_go(ifindex: u32) -> bool {
    (0..200).any(|_| {
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
