//! What every store must do. Each case gets a fresh and empty store.

pub mod basics;
pub mod batches;
pub mod channels;
pub mod claims;
pub mod lifetimes;
pub mod races;
pub mod scans;
pub mod streams;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lb_store::{Applied, Batch, Key, Limits, Store};

/// Long enough for any test.
pub const LONG: Duration = Duration::from_secs(600);

/// How a kind of store is started for one case.
pub trait Fixture: Sized {
    /// Whether values are sealed: counts and claims are then no values, and values are never counts.
    const SEALED: bool = false;

    async fn start(limits: Limits) -> Self;
    /// A store on the same keys; where several can be, another one each time.
    async fn store(&self) -> Arc<dyn Store>;
    /// Looks whether the case left the place as it must be.
    async fn finish(self);
}

/// The largest value of the suite's stores.
pub const VALUE_MAX: usize = 2 * 1024 * 1024;

pub fn limits() -> Limits {
    Limits { value_bytes_max: VALUE_MAX, ..Limits::default() }
}

pub fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// Whether something is under a key, whatever it is.
pub async fn is_there(store: &dyn Store, key: &Key) -> bool {
    store.apply(Batch::new().when(key, None)).await.unwrap() != Applied::Done(Vec::new())
}

/// Waits until `test` holds.
pub async fn until<T>(what: &str, mut test: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = test().await {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One test for each case, on stores of this fixture, and the given number of random histories.
macro_rules! conformance {
    ($fixture:ident, $histories:expr) => {
        $crate::suite::conformance! { @cases $fixture:
            basics: values_are_kept_replaced_taken_and_removed, a_value_is_set_only_where_none_or_the_right_one_is,
                counters_count, wrong_kinds_are_told_and_change_nothing, what_no_store_takes_is_refused,
                large_values_are_kept_up_to_the_cap_and_refused_above;
            lifetimes: everything_expires, lifetimes_begin_again_where_they_should;
            batches: all_is_done_and_every_outcome_told, a_refused_batch_leaves_no_trace,
                keys_of_several_tags_are_refused, a_key_stands_in_one_step_only, a_reader_sees_all_of_a_batch_or_nothing;
            streams: entries_come_in_order_and_pages, only_the_newest_are_kept, positions_must_grow, what_is_old_is_trimmed;
            claims: a_claim_is_held_renewed_and_released, only_its_holder_renews_and_releases,
                tokens_only_grow_and_fence_off_old_holders;
            races: one_of_a_thousand_wins, a_thousand_counts_are_all_counted, one_of_many_holds_a_claim,
                streams_written_by_many_stay_in_order;
            scans: a_scan_finds_what_begins_with_its_text, a_scan_of_ten_thousand_goes_on_while_others_write;
            channels: messages_come_in_order_to_every_subscriber, a_slow_subscriber_is_told_that_it_missed_something,
                a_dropped_subscription_is_forgotten;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn random_histories_are_those_of_the_model() {
            let fixture = <$fixture as $crate::suite::Fixture>::start($crate::suite::limits()).await;
            $crate::model::holds($crate::suite::Fixture::store(&fixture).await, $histories, <$fixture as $crate::suite::Fixture>::SEALED).await;
            $crate::suite::Fixture::finish(fixture).await;
        }
    };
    (@cases $fixture:ident: $($module:ident: $($case:ident),+;)+) => {
        $(mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fixture = <super::$fixture as $crate::suite::Fixture>::start($crate::suite::limits()).await;
                $crate::suite::$module::$case(&fixture).await;
                $crate::suite::Fixture::finish(fixture).await;
            })+
        })+
    };
}
pub(crate) use conformance;
