//! What the forwarder counts: what it forwarded, and a name for every packet that it did not.
//!
//! What it gives to the stack (questions for neighbours, echo requests, what is for nobody) is counted there.

exos_inet::counters! {
    /// The counters of a forwarder.
    pub struct Counters;
    /// Packets forwarded to servers.
    forwarded_to_servers,
    /// Packets forwarded to clients.
    forwarded_to_clients,
    /// Of either, ICMP errors.
    forwarded_icmp_errors,
    /// Of either, fragments.
    forwarded_fragments,
    /// Of either, packets that waited until a neighbour had answered.
    forwarded_late,
    /// Flows begun.
    flows_begun,
    /// Flows of a forwarder before this one that go on.
    flows_restored,
    /// Flows that ended by their age.
    flows_expired,
    /// Flows given up early for others: on their way to be opened, or over.
    flows_replaced,
    /// Flows given up early for others although they may have been alive: the table was full of such.
    flows_evicted,
    /// Flows ended because their server was removed at once.
    flows_ended,
    /// Drop: the packet had gone over too many hops.
    drop_hops,
    /// First packets for which there was no server, answered by the stack: with a reset, or an error of ICMP.
    refused_no_server,
    /// Drop: the same, where clients are to ask again.
    drop_no_server,
    /// Drop: a first packet while the table is full of flows seen lately.
    drop_table_full,
    /// Drop: a first packet while the server's ports are all in use.
    drop_no_port,
    /// Drop: a later fragment whose first one has not come, or so long ago that it was forgotten.
    drop_fragment,
    /// Drop: an ICMP error about a packet of no flow.
    drop_icmp_unknown,
    /// Segments to a listener or to a port of ours that are of no flow and begin none: the stack answers them with a reset.
    unknown_flow,
}
