//! Other people's clients and servers on both sides of the gateway.
//!
//! Each test lets one client do the same steps three times: directly with the server, through `landbridge serve` and
//! through `landbridge stdio`. What the client saw must be the same, however it got there.
//!
//! A module named `peer_KEY` marks its tests as uses of that peer; `cargo xtask test` counts them.

mod client;
mod compare;
mod inspector;
mod installed;
mod pair;
mod plan;
mod rust;
mod server;

/// One test per line: name, client, its era, what is behind, and how that is connected.
macro_rules! pairs {
    ($($name:ident: $client:ident $era:ident, $behind:expr, $link:ident;)*) => {
        use crate::client::{Client, Era};
        use crate::server::{Behind, Link};
        $(
            #[tokio::test]
            async fn $name() {
                crate::pair::check(Client::$client, Era::$era, $behind, Link::$link).await;
            }
        )*
    };
}

mod peer_typescript_v1 {
    pairs! {
        fixture_on_stdio: TypeScript1 Legacy, Behind::Fixture("dual"), Stdio;
        fixture_on_http: TypeScript1 Legacy, Behind::Fixture("dual"), Http;
        modern_only_fixture_on_stdio: TypeScript1 Legacy, Behind::Fixture("modern"), Stdio;
        modern_only_fixture_on_http: TypeScript1 Legacy, Behind::Fixture("modern"), Http;
    }

    mod peer_everything {
        pairs! {
            on_stdio: TypeScript1 Legacy, Behind::Everything, Stdio;
            on_http: TypeScript1 Legacy, Behind::Everything, Http;
        }
    }
}

mod peer_typescript_v2 {
    pairs! {
        legacy_fixture_on_stdio: TypeScript2 Legacy, Behind::Fixture("dual"), Stdio;
        legacy_fixture_on_http: TypeScript2 Legacy, Behind::Fixture("dual"), Http;
        legacy_modern_only_fixture_on_stdio: TypeScript2 Legacy, Behind::Fixture("modern"), Stdio;
        legacy_modern_only_fixture_on_http: TypeScript2 Legacy, Behind::Fixture("modern"), Http;
        modern_fixture_on_stdio: TypeScript2 Modern, Behind::Fixture("dual"), Stdio;
        modern_fixture_on_http: TypeScript2 Modern, Behind::Fixture("dual"), Http;
        modern_legacy_only_fixture_on_stdio: TypeScript2 Modern, Behind::Fixture("legacy"), Stdio;
        modern_legacy_only_fixture_on_http: TypeScript2 Modern, Behind::Fixture("legacy"), Http;
    }

    mod peer_everything {
        pairs! {
            legacy_on_stdio: TypeScript2 Legacy, Behind::Everything, Stdio;
            legacy_on_http: TypeScript2 Legacy, Behind::Everything, Http;
            modern_on_stdio: TypeScript2 Modern, Behind::Everything, Stdio;
            modern_on_http: TypeScript2 Modern, Behind::Everything, Http;
        }
    }
}

mod peer_python {
    pairs! {
        legacy_fixture_on_stdio: Python Legacy, Behind::Fixture("dual"), Stdio;
        legacy_fixture_on_http: Python Legacy, Behind::Fixture("dual"), Http;
        legacy_modern_only_fixture_on_stdio: Python Legacy, Behind::Fixture("modern"), Stdio;
        legacy_modern_only_fixture_on_http: Python Legacy, Behind::Fixture("modern"), Http;
        modern_fixture_on_stdio: Python Modern, Behind::Fixture("dual"), Stdio;
        modern_fixture_on_http: Python Modern, Behind::Fixture("dual"), Http;
        modern_legacy_only_fixture_on_stdio: Python Modern, Behind::Fixture("legacy"), Stdio;
        modern_legacy_only_fixture_on_http: Python Modern, Behind::Fixture("legacy"), Http;
    }

    mod peer_everything {
        pairs! {
            legacy_on_stdio: Python Legacy, Behind::Everything, Stdio;
            legacy_on_http: Python Legacy, Behind::Everything, Http;
            modern_on_stdio: Python Modern, Behind::Everything, Stdio;
            modern_on_http: Python Modern, Behind::Everything, Http;
        }
    }
}

mod peer_rmcp {
    pairs! {
        legacy_fixture_on_stdio: Rmcp Legacy, Behind::Fixture("dual"), Stdio;
        legacy_fixture_on_http: Rmcp Legacy, Behind::Fixture("dual"), Http;
        legacy_modern_only_fixture_on_stdio: Rmcp Legacy, Behind::Fixture("modern"), Stdio;
        legacy_modern_only_fixture_on_http: Rmcp Legacy, Behind::Fixture("modern"), Http;
        modern_fixture_on_stdio: Rmcp Modern, Behind::Fixture("dual"), Stdio;
        modern_fixture_on_http: Rmcp Modern, Behind::Fixture("dual"), Http;
        modern_legacy_only_fixture_on_stdio: Rmcp Modern, Behind::Fixture("legacy"), Stdio;
        modern_legacy_only_fixture_on_http: Rmcp Modern, Behind::Fixture("legacy"), Http;
    }

    mod peer_everything {
        pairs! {
            legacy_on_stdio: Rmcp Legacy, Behind::Everything, Stdio;
            legacy_on_http: Rmcp Legacy, Behind::Everything, Http;
            modern_on_stdio: Rmcp Modern, Behind::Everything, Stdio;
            modern_on_http: Rmcp Modern, Behind::Everything, Http;
        }
    }
}

mod peer_inspector {
    mod peer_node {
        use crate::client::Era;
        use crate::inspector::{calls, lists};
        use crate::server::{Behind, Link};

        #[tokio::test]
        async fn legacy_lists_of_the_fixture_on_http() {
            lists(Era::Legacy, Behind::Fixture("dual"), Link::Http).await;
        }

        #[tokio::test]
        async fn legacy_calls_of_the_fixture_on_http() {
            calls(Era::Legacy, Behind::Fixture("dual"), Link::Http).await;
        }

        #[tokio::test]
        async fn modern_lists_of_the_fixture_on_stdio() {
            lists(Era::Modern, Behind::Fixture("dual"), Link::Stdio).await;
        }

        #[tokio::test]
        async fn modern_calls_of_the_fixture_on_stdio() {
            calls(Era::Modern, Behind::Fixture("dual"), Link::Stdio).await;
        }

        mod peer_everything {
            use super::*;

            #[tokio::test]
            async fn legacy_lists_on_stdio() {
                lists(Era::Legacy, Behind::Everything, Link::Stdio).await;
            }

            #[tokio::test]
            async fn legacy_calls_on_stdio() {
                calls(Era::Legacy, Behind::Everything, Link::Stdio).await;
            }
        }
    }
}
