//! Filters and the protocol stack read a packet alike: wherever `exos_wire` understands a packet, the layers are where
//! it says. (Where it does not, filters may still find layers: they do not look at length fields and options.)

use crate::common;

use common::{Random, hex};
use exos_filter::layers::{IPV4, IPV6, Layers};
use exos_wire::ethernet::EthernetView;
use exos_wire::ipv4::Ipv4View;
use exos_wire::ipv6::Ipv6View;
use exos_wire::protocol::{AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, ROUTING};

/// Total length and payload length as long as the frame is, so that `exos_wire` takes it.
fn with_lengths(frame: &mut [u8]) {
    let Some((ethertype, network)) = EthernetView::parse(frame)
        .ok()
        .map(|v| (v.ethertype(), v.header_len()))
    else {
        return;
    };
    let length = frame.len() - network;
    let (field, value) = match ethertype {
        IPV4 => (network + 2, length),
        IPV6 => (network + 4, length.saturating_sub(40)),
        _ => return,
    };
    if let Some(bytes) = frame.get_mut(field..field + 2) {
        bytes.copy_from_slice(&(value as u16).to_be_bytes());
    }
}

/// Compares the layers of one frame; the kind of packet, or None when `exos_wire` does not take it.
fn compare(frame: &[u8]) -> Option<&'static str> {
    let layers = Layers::locate(frame);
    let Ok(view) = EthernetView::parse(frame) else {
        assert_eq!(layers, Layers::default(), "{}", hex(frame));
        return None;
    };
    let network = view.header_len();
    assert_eq!(
        (layers.ethertype, layers.network),
        (Some(view.ethertype()), Some(network)),
        "{}",
        hex(frame)
    );
    match view.ethertype() {
        IPV4 => {
            let packet = Ipv4View::parse(view.payload()).ok()?;
            let transport =
                (packet.fragment_offset() == 0).then_some(network + packet.header_len());
            assert_eq!(
                (layers.protocol, layers.transport),
                (Some(packet.protocol()), transport),
                "{}",
                hex(frame)
            );
            Some("ipv4")
        }
        IPV6 => {
            let upper = Ipv6View::parse(view.payload()).ok()?.upper().ok()?;
            // Behind the header of a first fragment, where `exos_wire` stops, filters walk on.
            let first = upper.fragment.is_some_and(|f| f.offset == 0);
            if first
                && [ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS]
                    .contains(&upper.protocol)
            {
                return Some("ipv6 first fragment");
            }
            let later = upper.fragment.is_some_and(|f| f.offset > 0);
            let transport = (!later).then_some(network + upper.offset);
            assert_eq!(
                (layers.protocol, layers.transport),
                (Some(upper.protocol), transport),
                "{}",
                hex(frame)
            );
            Some("ipv6")
        }
        _ => {
            assert_eq!(
                (layers.protocol, layers.transport),
                (None, None),
                "{}",
                hex(frame)
            );
            Some("other")
        }
    }
}

#[test]
fn layers_are_where_the_stack_finds_them() {
    let random = &mut Random(11);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..200_000 {
        let mut frame = common::packet(random);
        with_lengths(&mut frame);
        if let Some(kind) = compare(&frame) {
            *seen.entry(kind).or_insert(0) += 1;
        }
    }
    assert!(
        seen.len() == 4 && seen.values().all(|&n| n > 100),
        "{seen:?}"
    );
}
