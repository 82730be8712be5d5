//! The Rust SDK: it is refused, follows the challenge, and comes again with a token.

use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::{AuthClient, AuthorizationManager, AuthorizationRequest, OAuthState};
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpClientTransportConfig};
use rmcp::{RoleClient, ServiceExt as _};

use super::{STEP_MAX, logged_in};
use crate::world::REDIRECT;

/// From a bare 401 to a call and a refresh.
pub async fn gets_in(url: &str, document: Option<&str>) {
    let whole = async {
        let refused = ().serve(StreamableHttpClientTransport::from_uri(url)).await.expect_err("it has no token");
        let challenge = refused.auth_challenge().unwrap_or_else(|| panic!("no challenge: {refused}")).to_owned();
        let manager = AuthorizationManager::new(url).await.expect("an address");
        let mut state = OAuthState::Unauthorized(manager);
        let mut request = AuthorizationRequest::new(REDIRECT).with_client_name("Rust").with_challenge(challenge);
        if let Some(document) = document {
            request = request.with_client_metadata_url(document);
        }
        state.start_authorization(request).await.expect("it finds where to go");
        let start = state.get_authorization_url().await.expect("an address");
        let came = logged_in(&start, document, "alice").await;
        state.handle_callback_url(came.as_str()).await.expect("it gets tokens");
        let manager = state.into_authorization_manager().expect("it is authorized");
        let transport = authorized(&StreamableHttpClientTransport::from_uri(url), manager, url);
        let (kept, transport) = transport;
        let client = ().serve(transport).await.expect("it gets in");
        assert!(20 < calls(&client).await);
        let before = kept.get_access_token().await.expect("a token");
        kept.auth_manager.lock().await.refresh_token().await.expect("it refreshes");
        assert_ne!(kept.get_access_token().await.expect("a token"), before);
        calls(&client).await;
        client.cancel().await.expect("it ends");
    };
    tokio::time::timeout(STEP_MAX * 2, whole).await.expect("in time");
}

/// Lists and calls; says how many tools there are.
async fn calls(client: &RunningService<RoleClient, ()>) -> usize {
    let answer = client.call_tool(CallToolRequestParams::new("list_servers")).await.expect("an answer");
    assert!(format!("{answer:?}").contains("it"), "{answer:?}");
    client.list_tools(None).await.expect("tools").tools.len()
}

/// A transport of the same kind that sends the token, and what keeps the token.
fn authorized<C: StreamableHttpClient + Default + Sync>(
    _like: &StreamableHttpClientTransport<C>,
    manager: AuthorizationManager,
    url: &str,
) -> (AuthClient<C>, StreamableHttpClientTransport<AuthClient<C>>) {
    let client = AuthClient::new(C::default(), manager);
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    (client.clone(), StreamableHttpClientTransport::with_client(client, config))
}
