//! Connections that speak HTTP/2, and those of their streams that wait.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::Cheetah;
use crate::connections::connection::{Outcome, Task, Told};
use crate::connections::http2::{Driver, Exchanges};
use crate::connections::transport::{Abort, Transport};

impl Cheetah {
    /// Does something with a connection or a stream that has waited, if that is still there.
    pub(super) fn run<T: Transport>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        task: &Task<'_>,
        transport: &mut T,
    ) {
        if !Exchanges::has(id) {
            return self.with(now, id, transport, |it, turn| task.run(it, turn));
        }
        let Some(connection) = self.tables.exchanges.connection_of(id) else {
            return;
        };
        self.drive(now, connection, transport, |driver| driver.run(id, task));
    }

    /// Tells a connection that speaks HTTP/2 of what is about all of its streams.
    pub(super) fn tell_http2<T: Transport>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        told: Told,
        transport: &mut T,
    ) {
        self.drive(now, id, transport, |driver| driver.tell(told));
    }

    fn drive<T: Transport>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        transport: &mut T,
        act: impl FnOnce(&mut Driver<'_, T>) -> Outcome,
    ) {
        let Some((connection, exchanges)) = self.tables.with_streams(id) else {
            return;
        };
        let driver = Driver::new(connection, exchanges, &mut self.shared, transport, now);
        let Some(mut driver) = driver else {
            return;
        };
        let outcome = act(&mut driver);
        let missing = driver.end();
        self.tables.of(id).arm(id);
        for (stream, missing) in missing {
            self.fetch(stream, missing);
        }
        if let Outcome::Broken = outcome {
            transport.abort(id, Abort::Failed);
            self.close(id, false);
        }
    }
}
