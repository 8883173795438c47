//! Counters of one resolver: what was asked, what was answered, and a name for every message that was dropped.

exos_inet::counters! {
    /// The counters of a resolver.
    pub struct Counters;
    /// Queries sent in datagrams.
    queries_udp,
    /// Queries sent over TCP.
    queries_tcp,
    /// Answers of servers that were used.
    answers,
    /// Names of one family found in the cache.
    cache_hits,
    /// Names of one family not found in the cache.
    cache_misses,
    /// Of these, names that were being asked for already.
    cache_joined,
    /// Entries of the cache that made room for others.
    cache_evicted,
    /// Queries that were not answered in time.
    timeouts,
    /// Queries whose server could not be reached, or closed the connection.
    unreachable,
    /// Queries that a server would or could not answer, or answered with what cannot be read.
    server_failures,
    /// Answers that said that they are cut off: asked again over TCP.
    truncated,
    /// Answers whose name was not in the letters asked: asked again over TCP.
    case_lost,
    /// Queries to whose port wrong messages came, enough that somebody may be guessing: asked again over TCP.
    guesses,
    /// Servers that did not understand EDNS: asked again without.
    edns_refused,
    /// Local ports that were in use.
    ports_in_use,
    /// Records in answers that nobody asked for.
    records_ignored,
    /// Drop: a message for a query that has ended.
    drop_no_query,
    /// Drop: a datagram of another sender than the server asked.
    drop_source,
    /// Drop: no DNS response at all.
    drop_malformed,
    /// Drop: the identifier of another query.
    drop_identifier,
    /// Drop: an answer to another question.
    drop_question,
}
