//! What a person should know about a link.

use exos_link::{Link, Merging, Mode, XdpLink};

use crate::node::Exos;

impl Exos {
    /// What a person should know about the link, in a line.
    pub fn describe_link(&self) -> String {
        match &self.link {
            Link::Xdp(link) => {
                let part = match &self.via {
                    Some(via) if via.is_direct() => format!(
                        "slot {} of the daemon, a queue of the interface itself (what is sent is not checked), ",
                        via.slot()
                    ),
                    Some(via) => format!("slot {} of the daemon, ", via.slot()),
                    None => String::new(),
                };
                part + &xdp(link)
            }
            Link::Packet(link) => format!(
                "interface {}, packet sockets and traffic control, MTU {}, larger packets whole",
                link.end().name(),
                link.end().mtu()
            ),
            Link::Tap(link) => format!(
                "TAP device {}, MTU {} (slower than AF_XDP)",
                link.end().name(),
                link.end().mtu()
            ),
            Link::Memory(_) => "a wire in memory".to_owned(),
        }
    }
}

/// What a person should know about queues of an interface.
pub(crate) fn xdp(link: &XdpLink) -> String {
    let mode = match link.mode() {
        Mode::Native => "native XDP",
        Mode::Generic => generic(link.merging()),
    };
    let copy = if link.is_zero_copy() {
        "zero copy"
    } else {
        "copy mode"
    };
    format!(
        "interface {}, {}, {mode}, {copy}, MTU {}",
        link.name(),
        describe_queues(link.queues()),
        link.mtu()
    )
}

/// Why the program is not in the driver, and what that means.
fn generic(merging: Merging) -> &'static str {
    match merging {
        Merging::No => "generic XDP (the driver has no native one: slower)",
        Merging::Taken => {
            "generic XDP (slower: the device merges packets, and cannot be told to stop, so that the driver refuses native XDP)"
        }
        Merging::Lost => {
            "generic XDP (the device merges packets, and cannot be told to stop: merged ones are lost, uploads to us crawl; use \
             Linux 6.6 or newer, a device whose guest offloads can be changed or are off, or the kernel's sockets)"
        }
    }
}

fn describe_queues(queues: &[u32]) -> String {
    match queues {
        [one] => format!("queue {one}"),
        [first, .., last] if (last - first) as usize + 1 == queues.len() => {
            format!("queues {first} to {last}")
        }
        several => {
            let numbers: Vec<_> = several.iter().map(u32::to_string).collect();
            format!("queues {}", numbers.join(", "))
        }
    }
}
