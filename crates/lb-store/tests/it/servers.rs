//! Stores on servers of their own.

use std::sync::Arc;

use lb_peers::valkey::{Program, Valkey};
use lb_store::{Limits, Settings, Store};

/// A server, and how a store is opened on it.
pub struct Server {
    pub valkey: Valkey,
    pub settings: Settings,
}

impl Server {
    pub fn start(program: Program, limits: Limits) -> Self {
        let valkey = Valkey::start_with(program, &[]);
        let settings = Settings { limits, ..Settings::parse(&valkey.url()).unwrap() };
        Self { valkey, settings }
    }

    pub async fn store(&self) -> Arc<dyn Store> {
        lb_store::open(&self.settings).await.unwrap()
    }

    /// Nothing may stay for ever.
    pub fn finish(&self) {
        let script = "local bad = {} for _, k in ipairs(redis.call('KEYS', '*')) do \
                      if redis.call('PTTL', k) == -1 or k:sub(1, 11) ~= 'landbridge:' then bad[#bad + 1] = k end end \
                      return bad";
        assert_eq!(self.valkey.command(&["EVAL", script, "0"]), "*0\r\n", "keys that live for ever, or are not ours");
    }
}

/// A fixture on one of both programs.
macro_rules! fixture {
    ($name:ident) => {
        struct $name($crate::servers::Server);

        impl $crate::suite::Fixture for $name {
            async fn start(limits: lb_store::Limits) -> Self {
                Self($crate::servers::Server::start(lb_peers::valkey::Program::$name, limits))
            }

            async fn store(&self) -> std::sync::Arc<dyn lb_store::Store> {
                self.0.store().await
            }

            async fn finish(self) {
                self.0.finish();
            }
        }
    };
}
pub(crate) use fixture;
