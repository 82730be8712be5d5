//! The store in memory.

use std::sync::Arc;

use lb_store::{Limits, Settings, Store};

use crate::suite::{self, Fixture};

struct Memory(Arc<dyn Store>);

impl Fixture for Memory {
    async fn start(limits: Limits) -> Self {
        let settings = Settings { limits, ..Settings::parse("memory").unwrap() };
        Self(lb_store::open(&settings).await.unwrap())
    }

    async fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    async fn finish(self) {}
}

suite::conformance!(Memory, 300);
