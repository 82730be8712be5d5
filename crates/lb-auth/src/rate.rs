//! How often strangers may ask, counted in the store so that several nodes count together.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use lb_store::{Key, Store};

use crate::secret::Hash;
use crate::token::seconds;

/// So many in each window of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub name: &'static str,
    pub limit: i64,
    pub window: Duration,
}

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// `/register`, for each address.
pub(crate) const REGISTER_HOUR: Rate = Rate { name: "register", limit: 10, window: HOUR };
/// The same in a day.
pub(crate) const REGISTER_DAY: Rate = Rate { name: "register-day", limit: 100, window: Duration::from_secs(86_400) };
/// `/token` and `/revoke`, for each client at each address.
pub(crate) const TOKEN: Rate = Rate { name: "token", limit: 60, window: MINUTE };
/// `/authorize`, for each address.
pub(crate) const AUTHORIZE: Rate = Rate { name: "authorize", limit: 30, window: MINUTE };
/// Documents of clients that are fetched, for each address that asks.
pub(crate) const DOCUMENT_ADDRESS: Rate = Rate { name: "document-ip", limit: 100, window: HOUR };
/// The same for each host that they are fetched from.
pub(crate) const DOCUMENT_HOST: Rate = Rate { name: "document-host", limit: 100, window: HOUR };

impl Rate {
    /// Counts one more; `Some` says after how long the next window begins when that is too many.
    pub async fn take(
        self,
        store: &dyn Store,
        who: &str,
        now: SystemTime,
    ) -> Result<Option<Duration>, lb_store::Error> {
        let length = self.window.as_secs().max(1);
        let (window, left) = (seconds(now) / length, length - seconds(now) % length);
        let who: String = Hash::of(who.as_bytes()).hex().chars().take(32).collect();
        let key = Key::parse(&format!("rate:{{{}:{who}}}:{window}", self.name))?;
        let count = store.add(&key, 1, self.window + MINUTE).await?;
        Ok((self.limit < count).then(|| Duration::from_secs(left)))
    }
}

/// Who is counted together: one address, or all addresses of one IPv6 network.
pub(crate) fn counted(from: IpAddr) -> String {
    match from.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64;
            format!("{network:016x}/64")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[tokio::test]
    async fn each_has_so_many_in_each_window() {
        let store = lb_store::open(&lb_store::Settings::parse("memory").unwrap()).await.unwrap();
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for _ in 0..60 {
            assert_eq!(TOKEN.take(&*store, "a", at(600)).await.unwrap(), None);
        }
        assert_eq!(TOKEN.take(&*store, "a", at(610)).await.unwrap(), Some(Duration::from_secs(50)));
        assert_eq!(TOKEN.take(&*store, "b", at(610)).await.unwrap(), None);
        assert_eq!(TOKEN.take(&*store, "a", at(660)).await.unwrap(), None);
    }

    #[test]
    fn addresses_of_one_network_are_counted_together() {
        let of = |text: &str| counted(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:1.2.3.4"), of("1.2.3.4"));
        assert_ne!(of("1.2.3.4"), of("1.2.3.5"));
    }
}
