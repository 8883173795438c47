//! Filters of classic traffic control: a BPF program on an interface where the kernel has no tcx links (before Linux 6.6).
//!
//! A filter stays until it is removed or its interface goes, whatever becomes of the process, and each hook of an interface
//! has one of ours at most, which is known by its name and place. Filters need the queueing discipline `clsact`: where that
//! was not there it is made, which the filter's name notes, and taken away again with the last filter. What others put there
//! is never replaced or removed.

use super::exchange::Netlink;
use crate::bpf::TcxHook;
use crate::error::Result;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption,
};
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Behind those that others are likely to have: the kernel numbers from 49152 downwards.
const PREFERENCE: u32 = 0xe050;
/// `ETH_P_ALL`, as the header wants it.
const ALL_PROTOCOLS: u16 = 0x0003_u16.to_be();
const HANDLE: TcHandle = TcHandle { major: 0, minor: 1 };
const CLSACT: &str = "clsact";
const NAME: &str = "exos";
const NAME_WITH_CLSACT: &str = "exos and its clsact";

impl Netlink {
    /// Puts a program, loaded with [`Prog::load_classifier`](crate::bpf::Prog::load_classifier), at a hook of an interface, or
    /// in place of the one that we have there, without a gap.
    pub fn put_filter(&self, ifindex: u32, hook: TcxHook, prog: BorrowedFd<'_>) -> Result<()> {
        let (name, flags) = match self.filter_name(ifindex, hook)? {
            Some(name) => (name, NLM_F_CREATE),
            None if self.make_clsact(ifindex)? => (NAME_WITH_CLSACT, NLM_F_CREATE | NLM_F_EXCL),
            None => (NAME, NLM_F_CREATE | NLM_F_EXCL),
        };
        let mut message = filter(ifindex, hook);
        message.attributes.push(program(prog, name));
        let message = RouteNetlinkMessage::NewTrafficFilter(message);
        let put = self.change(message, flags, || {
            format!("cannot put a filter on interface {ifindex} ({hook:?})")
        });
        put.map_err(|error| match error.errno() {
            Some(libc::ENOENT | libc::EOPNOTSUPP) => {
                error.mend("the kernel needs CONFIG_NET_CLS_BPF: modprobe cls_bpf")
            }
            Some(libc::EEXIST) => error.mend(format!(
                "somebody else's filter has the place: `tc filter show` lists it, preference {PREFERENCE}"
            )),
            _ => error,
        })
    }

    /// Takes our filter away, if there is one, and the discipline with it that was made for it, if nobody else uses that.
    pub fn remove_filter(&self, ifindex: u32, hook: TcxHook) -> Result<()> {
        let Some(name) = self.filter_name(ifindex, hook)? else {
            return Ok(());
        };
        let message = RouteNetlinkMessage::DelTrafficFilter(filter(ifindex, hook));
        self.change(message, 0, || {
            format!("cannot take the filter off interface {ifindex}")
        })?;
        let hooks = [TcxHook::Ingress, TcxHook::Egress];
        let others = hooks.map(|hook| self.filters(ifindex, hook));
        let is_used = others
            .iter()
            .any(|f| f.as_ref().map_or(true, |f| !f.is_empty()));
        if name != NAME_WITH_CLSACT || is_used {
            return Ok(());
        }
        let message = RouteNetlinkMessage::DelQueueDiscipline(clsact(ifindex));
        self.change(message, 0, || {
            format!("cannot take {CLSACT} off interface {ifindex}")
        })
    }

    /// What our filter at a hook is called.
    fn filter_name(&self, ifindex: u32, hook: TcxHook) -> Result<Option<&'static str>> {
        let filters = self.filters(ifindex, hook)?;
        let ours = |name: &str| [NAME, NAME_WITH_CLSACT].into_iter().find(|n| *n == name);
        Ok(filters.iter().filter_map(name_of).find_map(ours))
    }

    /// The filters at a hook, others' too.
    fn filters(&self, ifindex: u32, hook: TcxHook) -> Result<Vec<TcMessage>> {
        let mut message = TcMessage::with_index(ifindex as i32);
        message.header.parent = parent(hook);
        let request = RouteNetlinkMessage::GetTrafficFilter(message);
        let answers = match self.dump(request, || {
            format!("cannot list the filters of interface {ifindex}")
        }) {
            // A kernel without traffic control has none.
            Err(error) if error.is(libc::EOPNOTSUPP) => Vec::new(),
            answers => answers?,
        };
        Ok(answers
            .into_iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewTrafficFilter(message) => Some(message),
                _ => None,
            })
            .collect())
    }

    /// Makes the discipline that filters need; false when it is there.
    fn make_clsact(&self, ifindex: u32) -> Result<bool> {
        let message = RouteNetlinkMessage::NewQueueDiscipline(clsact(ifindex));
        let what = || format!("cannot make {CLSACT} on interface {ifindex}");
        match self.change(message, NLM_F_CREATE | NLM_F_EXCL, what) {
            Ok(()) => Ok(true),
            Err(error) if error.is(libc::EEXIST) => Ok(false),
            Err(error) if error.is(libc::ENODEV) => Err(error.mend(
                "there is no such interface in this network namespace: `ip link` lists them",
            )),
            Err(error) => {
                Err(error.mend("the kernel needs CONFIG_NET_SCH_INGRESS: modprobe sch_ingress"))
            }
        }
    }
}

fn parent(hook: TcxHook) -> TcHandle {
    let minor = match hook {
        TcxHook::Ingress => TcHandle::MIN_INGRESS,
        TcxHook::Egress => TcHandle::MIN_EGRESS,
    };
    TcHandle {
        major: u16::MAX,
        minor,
    }
}

/// Our filter's place at a hook.
fn filter(ifindex: u32, hook: TcxHook) -> TcMessage {
    let mut message = TcMessage::with_index(ifindex as i32);
    message.header.parent = parent(hook);
    message.header.handle = HANDLE;
    message.header.info = PREFERENCE << 16 | u32::from(ALL_PROTOCOLS);
    message.attributes = vec![TcAttribute::Kind(TcFilterBpf::KIND.to_owned())];
    message
}

fn clsact(ifindex: u32) -> TcMessage {
    let mut message = TcMessage::with_index(ifindex as i32);
    message.header.parent = TcHandle::CLSACT;
    message.header.handle = TcHandle {
        major: u16::MAX,
        minor: 0,
    };
    message.attributes = vec![TcAttribute::Kind(CLSACT.to_owned())];
    message
}

/// What a filter runs, and how it is called.
fn program(prog: BorrowedFd<'_>, name: &str) -> TcAttribute {
    TcAttribute::Options(vec![
        TcOption::Bpf(TcFilterBpfOption::ProgFd(prog.as_raw_fd() as u32)),
        TcOption::Bpf(TcFilterBpfOption::ProgName(name.to_owned())),
        TcOption::Bpf(TcFilterBpfOption::Flags(TcBpfFlags::DirectAction)),
    ])
}

/// The name of a filter at our place.
fn name_of(message: &TcMessage) -> Option<&str> {
    if message.header.info >> 16 != PREFERENCE || message.header.handle != HANDLE {
        return None;
    }
    let options = message.attributes.iter().find_map(|a| match a {
        TcAttribute::Options(options) => Some(options),
        _ => None,
    })?;
    options.iter().find_map(|option| match option {
        TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => Some(name.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::Prog;
    use crate::netns::NetNs;
    use std::os::fd::AsFd as _;

    /// `r0 = -1; exit`: the next one decides.
    const NEXT: [u64; 2] = [0xffff_ffff_0000_00b7, 0x95];

    fn netns() -> Option<NetNs> {
        let made = NetNs::anonymous().and_then(|netns| {
            let prog = Prog::load_classifier(&NEXT, "exos_tc")?;
            drop(prog);
            Ok(netns)
        });
        if let Err(error) = &made {
            eprintln!("SKIPPED: filters of traffic control: {error}");
        }
        made.ok()
    }

    #[test]
    fn a_filter_is_put_replaced_found_and_removed() {
        let Some(netns) = netns() else { return };
        netns.run(put_and_remove).expect("a namespace to run in");
    }

    /// Whether a filter of ours is at a hook.
    fn has_filter(netlink: &Netlink, index: u32, hook: TcxHook) -> bool {
        netlink.filter_name(index, hook).unwrap().is_some()
    }

    fn put_and_remove() {
        let netlink = Netlink::new().unwrap();
        netlink.create_veth("gate0", "gate1").unwrap();
        let index = netlink.link_by_name("gate0").unwrap().index;
        let prog = Prog::load_classifier(&NEXT, "exos_tc").unwrap();
        for hook in [TcxHook::Ingress, TcxHook::Egress] {
            assert!(!has_filter(&netlink, index, hook));
            netlink.remove_filter(index, hook).unwrap();
            netlink.put_filter(index, hook, prog.as_fd()).unwrap();
            netlink.put_filter(index, hook, prog.as_fd()).unwrap();
            assert!(has_filter(&netlink, index, hook));
        }
        // The discipline came with the first filter, and stays while the second needs it.
        netlink.remove_filter(index, TcxHook::Ingress).unwrap();
        assert!(!has_filter(&netlink, index, TcxHook::Ingress));
        assert!(has_filter(&netlink, index, TcxHook::Egress));
        assert!(!netlink.make_clsact(index).unwrap());
        netlink.remove_filter(index, TcxHook::Egress).unwrap();
        assert!(!has_filter(&netlink, index, TcxHook::Egress));
    }

    /// A successor replaces the filter of a process that was killed, and what that one made goes with it.
    #[test]
    fn the_discipline_goes_with_the_filter_that_it_was_made_for_and_no_other() {
        let Some(netns) = netns() else { return };
        netns
            .run(|| {
                let netlink = Netlink::new().unwrap();
                netlink.create_veth("gate0", "gate1").unwrap();
                let index = netlink.link_by_name("gate0").unwrap().index;
                let prog = Prog::load_classifier(&NEXT, "exos_tc").unwrap();
                for ours in [true, false] {
                    assert!(ours || netlink.make_clsact(index).unwrap());
                    for _ in 0..2 {
                        let netlink = Netlink::new().unwrap();
                        let put = netlink.put_filter(index, TcxHook::Egress, prog.as_fd());
                        put.unwrap();
                    }
                    netlink.remove_filter(index, TcxHook::Egress).unwrap();
                    let is_gone = netlink.make_clsact(index).unwrap();
                    assert_eq!(is_gone, ours);
                    let message = RouteNetlinkMessage::DelQueueDiscipline(clsact(index));
                    netlink.change(message, 0, || "cannot".to_owned()).unwrap();
                }
            })
            .expect("a namespace to run in");
    }

    /// Others' filters, at another place and at ours, and the discipline under them.
    #[test]
    fn what_others_put_there_stays() {
        let Some(netns) = netns() else { return };
        netns.run(beside_others).expect("a namespace to run in");
    }

    fn beside_others() {
        let netlink = Netlink::new().unwrap();
        netlink.create_veth("gate0", "gate1").unwrap();
        let index = netlink.link_by_name("gate0").unwrap().index;
        let prog = Prog::load_classifier(&NEXT, "exos_tc").unwrap();
        let count = |hook| netlink.filters(index, hook).unwrap().len();
        let foreign = |hook, preference: u32, name| {
            let mut message = filter(index, hook);
            message.header.info = preference << 16 | u32::from(ALL_PROTOCOLS);
            message.attributes.push(program(prog.as_fd(), name));
            let message = RouteNetlinkMessage::NewTrafficFilter(message);
            let flags = NLM_F_CREATE | NLM_F_EXCL;
            netlink.change(message, flags, || name.to_owned()).unwrap();
        };
        netlink
            .put_filter(index, TcxHook::Egress, prog.as_fd())
            .unwrap();
        let ours = count(TcxHook::Egress);
        foreign(TcxHook::Egress, 1, "exos");
        netlink.remove_filter(index, TcxHook::Egress).unwrap();
        assert!(!has_filter(&netlink, index, TcxHook::Egress));
        assert_eq!(count(TcxHook::Egress), ours, "theirs instead of ours");
        assert!(!netlink.make_clsact(index).unwrap(), "it is in use");

        foreign(TcxHook::Ingress, PREFERENCE, "somebody's");
        let theirs = count(TcxHook::Ingress);
        let put = netlink.put_filter(index, TcxHook::Ingress, prog.as_fd());
        let error = put.unwrap_err();
        assert!(error.is(libc::EEXIST), "{error}");
        assert!(error.mend.unwrap().contains("somebody else"));
        netlink.remove_filter(index, TcxHook::Ingress).unwrap();
        assert_eq!(count(TcxHook::Ingress), theirs);
    }

    #[test]
    fn no_interface_no_filter() {
        let Some(netns) = netns() else { return };
        netns
            .run(|| {
                let prog = Prog::load_classifier(&NEXT, "exos_tc").unwrap();
                let netlink = Netlink::new().unwrap();
                let put = netlink.put_filter(0x7fff_fff0, TcxHook::Egress, prog.as_fd());
                let mend = put.unwrap_err().mend.unwrap();
                assert!(mend.contains("no such interface"), "{mend}");
                let gone = netlink.remove_filter(0x7fff_fff0, TcxHook::Egress);
                gone.expect("it has none");
            })
            .expect("a namespace to run in");
    }
}
