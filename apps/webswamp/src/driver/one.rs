//! A driver of one request, each time.

use std::time::Duration;

use super::task::{Driver, Task};
use crate::request::Request;

/// One request, each time.
pub struct One {
    request: [Request; 1],
    think: Duration,
}

impl One {
    /// After the same time of thinking.
    pub fn new(request: Request, think: Duration) -> Self {
        let request = [request];
        Self { request, think }
    }
}

impl Driver for One {
    fn requests(&self) -> &[Request] {
        &self.request
    }

    fn first(&mut self, client: u32) -> Option<Task> {
        self.next(client).map(Task::at_once)
    }

    fn next(&mut self, _client: u32) -> Option<Task> {
        Some(Task {
            request: 0,
            think: self.think,
        })
    }
}
