//! By which link a load goes that names none.
//!
//! What is on this host is reached over an interface pair of our own. What is not, a pair could only reach if the host
//! forwarded and translated addresses for it: settings that concern more than this load, and that would stay behind if it were
//! killed. So the load goes out where the host itself would go out, beside the host on its address, and the host's table of
//! routes says through which gateway.

use std::net::SocketAddr;

use exos::{Attachment, LinkKind, Queues, SharedInterface};
use exos_host::Result;
use exos_host::netlink::Netlink;
use exos_program::Needs;

use crate::options::LoadArgs;
use crate::target::{is_ours, refuse_strangers_of_host};

/// Has a link of our own lead to the servers: beside the host on the interface by which the first of them is reached, where that
/// is not on this host. Says so on standard error.
///
/// # Errors
///
/// The host's addresses and routes cannot be read, or no route leads there.
pub(super) fn lead(
    args: &LoadArgs,
    needs: &Needs,
    wanted: Attachment,
    servers: &[SocketAddr],
) -> Result<Attachment> {
    let first = servers[0].ip();
    let is_free = matches!(wanted.link, LinkKind::OwnPair(_)) && needs.pools.is_empty();
    if !is_free || first.is_loopback() || is_ours(first)? {
        return Ok(wanted);
    }
    if !args.yes_i_own_this_target {
        refuse_strangers_of_host(first)?;
    }
    let netlink = Netlink::new()?;
    let route = netlink.route_to(first)?;
    let Some(link) = netlink.link_by_index(route.oif)? else {
        return Ok(wanted);
    };
    let by = route
        .gateway
        .map_or(String::new(), |gateway| format!(" through {gateway}"));
    exos_program::info!(
        "exos load: {first} is reached by {0}{by}: going beside the host there (--link xdp:{0} --share-address)",
        link.name
    );
    let shared = SharedInterface {
        queues: Queues::All { cores: needs.cores },
        datagrams: needs.datagrams,
        ..SharedInterface::new(link.name, needs.role.clone())
    };
    Ok(Attachment {
        link: shared.into(),
        ..wanted
    })
}
