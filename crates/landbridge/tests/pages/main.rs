//! The waterfall in a real browser: it shows texts as texts, keeps itself up to date, and can be used.
//!
//! The gateway's own HTTP side serves the page here, over rows that the tests write. What is done in the browser is in
//! `browser.mjs`, one function per test; it asks for further rows by a line on its stdout.
//!
//! A module named `peer_KEY` marks its tests as uses of that peer; `cargo xtask test` counts them.

mod browser;
mod rows;

mod peer_chromium {
    mod peer_playwright {
        use crate::browser::browse;
        use crate::rows;

        #[tokio::test]
        async fn hostile_texts_stay_texts() {
            browse("hostile", rows::hostile).await;
        }

        #[tokio::test]
        async fn answers_of_any_shape_run_nothing() {
            browse("forged", |_| Vec::new()).await;
        }

        #[tokio::test]
        async fn rows_appear_and_end_without_reloading() {
            browse("live", rows::ordinary).await;
        }

        #[tokio::test]
        async fn filters_and_details_work_with_the_keyboard() {
            browse("use", rows::ordinary).await;
        }

        #[tokio::test]
        async fn a_thousand_rows_are_shown_quickly() {
            browse("thousand", rows::thousand).await;
        }

        #[tokio::test]
        async fn it_fits_small_and_large_screens_in_light_and_dark() {
            browse("looks", rows::ordinary).await;
        }

        #[tokio::test]
        async fn without_rows_it_says_what_to_do() {
            browse("empty", |_| Vec::new()).await;
        }
    }
}
