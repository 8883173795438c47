//! What does not fit to how servers are reached.

use super::*;

#[test]
fn what_does_not_fit_to_a_reach_is_refused_and_named() {
    let vip = "10.0.0.1:80";
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    // Spoken to from 10.0.0.9.
    let direct = |vip: &str| Listen {
        reach: Reach::Direct,
        to: vec![(at("10.0.0.2:80"), 1, [10, 0, 0, 9].into())],
        ..listen(vip, &[])
    };
    let cases = [
        (
            vec![Listen {
                reach: Reach::Direct,
                ..listen(vip, &[("10.0.0.2:81", 1)])
            }],
            Misfit::OtherPort(at(vip), at("10.0.0.2:81")),
        ),
        (
            vec![Listen {
                reach: Reach::Tunnel,
                ..listen(vip, &[("10.0.0.2:80", 1)])
            }],
            Misfit::OwnAddress(at("10.0.0.2:80"), at(vip).ip()),
        ),
        (
            ["10.0.0.1:80", "10.0.0.9:80"].map(direct).to_vec(),
            Misfit::OwnAddress(at("10.0.0.2:80"), at("10.0.0.9:80").ip()),
        ),
    ];
    for (wanted, misfit) in cases {
        let said = Services::new(&wanted).err();
        assert_eq!(said, Some(misfit), "{wanted:?}");
    }
    assert!(Services::new(&[direct(vip)]).is_ok());
}

/// A listener is not given another reach under the flows that it has, also while it is leaving; without any it may come back.
#[test]
fn a_listener_keeps_its_reach() {
    let vip = "10.0.0.1:80";
    let nat = listen(vip, &[("10.0.0.2:80", 1)]);
    let other = Listen {
        reach: Reach::Transparent,
        ..nat.clone()
    };
    let refused = Misfit::OtherReach(nat.at, Reach::Nat);
    let mut services = Services::new(&[nat]).unwrap();
    let again = services.become_these(std::slice::from_ref(&other));
    assert_eq!(again, Err(refused.clone()));
    services.listeners[0].flows = 1;
    services.remove_listener(0);
    assert_eq!(services.add_listener(&other), Err(refused));
    let mut services = Services::new(&[listen(vip, &[("10.0.0.2:80", 1)])]).unwrap();
    services.remove_listener(0);
    assert_eq!(services.add_listener(&other), Ok(0));
    assert_eq!(services.reach(0), Reach::Transparent);
}
