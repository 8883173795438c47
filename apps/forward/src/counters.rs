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
    /// Packets of no flow that went to the server that every forwarder would choose: it answers clients by itself.
    forwarded_without_flow,
    /// Of either, packets that waited until a neighbour had answered.
    forwarded_late,
    /// Flows begun.
    flows_begun,
    /// Flows that went to another server because the one before refused them, or did not answer.
    flows_moved,
    /// Resets and errors of ICMP that answered a SYN and were not passed on: it was sent to another server.
    refusals_withheld,
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
    /// Packets that went on in pieces: they did not fit, and may be cut.
    forwarded_cut,
    /// Packets that did not fit and must not be cut, of which the sender was told how long they may be.
    too_big_answered,
    /// Drop: the same, where no more such answers may be sent now, or none to such a packet.
    drop_too_big,
    /// Drop: a packet that stands for several or is longer than its link sends, while its neighbour was asked for; or one of
    /// which another link cannot be told what is undone.
    drop_uncut,
    /// Times that a router has said how long packets to a server may be.
    path_mtus_learned,
    /// Resets whose number shows that their sender does not know the connection, or nothing shows that it does: they went on, and
    /// the flow stands as before.
    resets_doubted,
    /// Drop: a first packet from an address that nobody can have.
    drop_source,
    /// Packets that had gone over as many hops as they may, of which the sender was told.
    hops_answered,
    /// Drop: the same, where no more such answers may be sent now, or none to such a packet.
    drop_hops,
    /// First packets for which there was no server, answered by the stack: with a reset, or an error of ICMP.
    refused_no_server,
    /// Drop: the same, where clients are to ask again.
    drop_no_server,
    /// Drop: a first packet while the table is full of flows seen lately.
    drop_table_full,
    /// Drop: a first packet while the server's ports are all in use.
    drop_no_port,
    /// Drop: a first packet of a client that has a connection to the same server from the same port, by another listener.
    drop_ends_in_use,
    /// Later fragments that came before the first one of their packet, and were kept until that comes.
    held_fragments,
    /// Drop: those of which it did not come in time or did not go on, or too many others waited.
    drop_fragment,
    /// Drop: an ICMP error about a packet of no flow.
    drop_icmp_unknown,
    /// Segments to a listener or to a port of ours that are of no flow and begin none: the stack answers them with a reset.
    unknown_flow,
}
