//! Shares whose buckets fill while the test runs, which the model's clock cannot follow.

use super::*;
use exos_filter::gate::limits::FADE_NS;

/// What passes with time, which the model's clock cannot follow: buckets fill, and what was used is forgotten.
#[test]
fn buckets_fill_and_what_was_used_fades() {
    in_namespace("buckets_fill_and_what_was_used_fades", || {
        let interfaces = gate::interfaces(2);
        let mut model = Model::default();
        model.config.mac = MAC;
        let key = FlowKey::port(TCP, (v("192.0.2.7"), 80).into());
        grant(&mut model, key, 1);
        model.slots[1] = slot(SlotKind::Veth, interfaces[1]);
        model.ports.insert(1);
        let half = FADE_NS / 2;
        let now = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let empty = |last| Bucket {
            tokens: 0,
            last,
            ..Bucket::new(1 << 30, 1 << 30)
        };
        let tables = gate::create();
        let programs = programs(&tables, &model);
        let header = gate::packets::ports(TCP, 50000, 80, 100);
        let packet = gate::packets::ip(v("198.51.100.9"), v("192.0.2.7"), TCP, None, &[], &header);
        let frame = gate::packets::ethernet(MAC, PEER_MAC, 0x0800, &packet);
        let len = frame.len() as i64;
        // The guarantee has nothing, and is not looked at for long; half a fading is over.
        let began = now();
        model.slots[1].rx = Share {
            guarantee: Bucket {
                last: 1 << 62,
                ..empty(0)
            },
            part: 16,
            used: 1 << 20,
            since: began - half,
            ..Share::default()
        };
        model.link[LINK_RX as usize] = empty(began - half);
        tables.fill(&model);
        let verdict = programs.incoming.test_run(&frame).unwrap().verdict;
        assert_eq!(verdict, xdp_verdict(To::Slot(1)));
        let (share, link) = (tables.slot(1).rx, tables.link(LINK_RX));
        let passed = share.since - (began - half);
        assert!(passed >= half && share.since <= now(), "{share:?}");
        let faded =
            (u128::from(1u32 << 20) * u128::from(passed.min(FADE_NS)) / u128::from(FADE_NS)) as i64;
        assert_eq!(share.used, (1 << 20) - faded + len);
        let earned = ((link.last - (began - half)) as i64) * (1 << 30) / 1_000_000_000;
        assert_eq!(link.tokens, earned - len);
        assert_eq!(share.guarantee.tokens, 0);
        // Two CPUs that faded at once took more than there was: that is nothing, and the slot goes on.
        model.slots[1].rx.used = -(1 << 43);
        model.slots[1].rx.since = now() - half;
        tables.fill(&model);
        let verdict = programs.incoming.test_run(&frame).unwrap().verdict;
        assert_eq!(verdict, xdp_verdict(To::Slot(1)));
        assert_eq!(tables.slot(1).rx.used, len);
    });
}
