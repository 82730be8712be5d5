//! Other people's clients and servers on both sides of the gateway.
//!
//! Each test lets one client do the same steps three times: directly with the server, through `landbridge serve` and
//! through `landbridge stdio`. What the client saw must be the same, however it got there.
//!
//! A module named `peer_KEY` marks its tests as uses of that peer; `cargo xtask test` counts them.

mod client;
mod compare;
mod inspector;
mod pair;
mod plan;
mod rust;
mod server;

/// A script beside this file.
fn beside(name: &str) -> String {
    format!("{}/tests/peers/{name}", env!("CARGO_MANIFEST_DIR"))
}

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
            on_sse: TypeScript1 Legacy, Behind::Everything, Sse;
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
            modern_on_sse: Python Modern, Behind::Everything, Sse;
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

/// One test per line: name, what the Inspector does, in which era, what is behind, and how that is connected.
macro_rules! inspections {
    ($($name:ident: $does:ident $era:ident, $behind:expr, $link:ident;)*) => {
        use crate::client::Era;
        use crate::inspector;
        use crate::server::{Behind, Link};
        $(
            #[tokio::test]
            async fn $name() {
                inspector::$does(Era::$era, $behind, Link::$link).await;
            }
        )*
    };
}

mod peer_inspector {
    mod peer_node {
        inspections! {
            legacy_fixture_on_http_is_greeted: greets Legacy, Behind::Fixture("dual"), Http;
            legacy_fixture_on_http_lists: lists Legacy, Behind::Fixture("dual"), Http;
            legacy_fixture_on_http_is_called: calls Legacy, Behind::Fixture("dual"), Http;
            legacy_fixture_on_http_is_read: reads Legacy, Behind::Fixture("dual"), Http;
            legacy_fixture_on_http_prompts: prompts Legacy, Behind::Fixture("dual"), Http;
            modern_fixture_on_stdio_is_greeted: greets Modern, Behind::Fixture("dual"), Stdio;
            modern_fixture_on_stdio_lists: lists Modern, Behind::Fixture("dual"), Stdio;
            modern_fixture_on_stdio_is_called: calls Modern, Behind::Fixture("dual"), Stdio;
            modern_fixture_on_stdio_is_read: reads Modern, Behind::Fixture("dual"), Stdio;
            modern_fixture_on_stdio_prompts: prompts Modern, Behind::Fixture("dual"), Stdio;
        }

        mod peer_everything {
            inspections! {
                legacy_on_stdio_is_greeted: greets Legacy, Behind::Everything, Stdio;
                legacy_on_stdio_lists: lists Legacy, Behind::Everything, Stdio;
                legacy_on_stdio_is_called: calls Legacy, Behind::Everything, Stdio;
                legacy_on_stdio_is_read: reads Legacy, Behind::Everything, Stdio;
                legacy_on_stdio_prompts: prompts Legacy, Behind::Everything, Stdio;
            }
        }
    }
}
