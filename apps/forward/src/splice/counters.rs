//! What the forwarder on sockets counts.

exos_inet::counters! {
    /// Its counters.
    pub struct Counters;
    /// Connections of clients.
    connections_accepted,
    /// Connections that ended as both sides wanted.
    connections_closed,
    /// Connections that one side broke off, by a reset mostly: the other side has got one.
    connections_broken,
    /// Connections that were given up because there was no descriptor for a pipe: allow more (ulimit -n).
    connections_no_pipe,
    /// Connections that were given up because nothing came for too long.
    connections_expired,
    /// Clients that got a reset because the server refused.
    connect_refused,
    /// Clients that got a reset because the server did not answer.
    connect_timed_out,
    /// Clients that got a reset for other reasons: no route, no port or no descriptor is left.
    connect_failed,
    /// Times that a client had to wait because there was no descriptor or memory.
    accept_failed,
    /// Bytes that servers were sent, on connections that have ended.
    bytes_to_servers,
    /// Bytes that clients were sent, on connections that have ended.
    bytes_to_clients,
}
