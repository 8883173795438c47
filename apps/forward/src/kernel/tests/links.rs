//! Flows between two links: clients on the first, servers on the second.

use super::*;

/// Of the second link.
const BACK: Mac = Mac([2, 0, 0, 0, 0, 10]);
/// What clients come to, and what is behind it.
const LISTENER: &str = "10.0.0.20:80";
const BEHIND: &str = "10.1.0.11:80";
const OURS_BEHIND: &str = "10.1.0.20";

fn stack_at(mac: Mac, address: &str) -> Stack {
    let mut config = Config::new(mac, 1500);
    config.neighbors = Neighbors::External;
    config.addresses = vec![(address.parse().unwrap(), 24)];
    Stack::new(config, 1, now()).unwrap()
}

fn two_links(reach: Reach, stacks: &[&mut Stack]) -> Forwarder {
    let listen = Listen {
        transport: Transport::Tcp,
        at: at(LISTENER),
        reach,
        to: vec![(at(BEHIND), 1, OURS_BEHIND.parse().unwrap())],
    };
    let mut forwarder = Forwarder::new(Services::new(&[listen]).unwrap(), MAC, 100, 1);
    forwarder.set_links(&[(MAC, 1500), (BACK, 1500)]);
    for (link, stack) in stacks.iter().enumerate() {
        let (generation, routes) = stack.routes();
        forwarder.set_routes(link, generation, routes);
    }
    forwarder.watch();
    forwarder
}

/// The kernel forwards a flow's packets on the links that they come by, and they leave by the link that leads on; each neighbour is followed on its own.
#[test]
fn flows_come_by_one_link_and_leave_by_the_other() {
    if !allowed("flows_come_by_one_link_and_leave_by_the_other") {
        return;
    }
    for reach in [Reach::Nat, Reach::Transparent, Reach::Direct] {
        let (mut front, mut back) = (stack_at(MAC, "10.0.0.20"), stack_at(BACK, OURS_BEHIND));
        let mut forwarder = two_links(reach, &[&mut front, &mut back]);
        let mut table = table(&forwarder);
        let client: Endpoint = at("10.0.0.1:5000").into();
        let state = match reach {
            Reach::Direct => State::GoesOn,
            _ => State::Established,
        };
        assert!(forwarder.restore(
            now(),
            &KeptFlow {
                transport: Transport::Tcp,
                client,
                listener: at(LISTENER).into(),
                server: at(BEHIND).into(),
                ours: OURS_BEHIND.parse::<IpAddr>().unwrap().into(),
                our_port: if reach == Reach::Nat { 5000 } else { 0 },
                reach,
                server_isn: 7,
                state,
            }
        ));
        let id = forwarder.poll_changed().unwrap();
        table.follow(now(), &mut forwarder, &mut [&mut front, &mut back], id);
        let flow = table.maps.flows().get(id.0).expect("it is there");
        assert_eq!(flow.links, [0, 1], "{reach:?}");
        let hop = |n: usize| table.maps.hops.words()[flow.hops[n] as usize].load(Ordering::Relaxed);
        assert_eq!(hop(0), layout_hop(1, None));
        back.set_neighbor(now(), at(BEHIND).ip(), SERVER_MAC);
        // One of the same address on the other link is another.
        front.set_neighbor(now(), at(BEHIND).ip(), MAC);
        front.set_neighbor(now(), at("10.0.0.1:0").ip(), BACK);
        table.refresh(now(), [&mut front, &mut back].into_iter());
        let hop = |n: usize| table.maps.hops.words()[flow.hops[n] as usize].load(Ordering::Relaxed);
        assert_eq!(hop(0), layout_hop(1, Some(SERVER_MAC)));
        if reach != Reach::Direct {
            assert_eq!(hop(1), layout_hop(0, Some(BACK)));
        }
    }
}

fn layout_hop(link: u8, mac: Option<Mac>) -> u64 {
    exos_filter::handler::forward::layout::hop(link, mac)
}
