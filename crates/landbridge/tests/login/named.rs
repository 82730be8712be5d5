//! A registration that names a client which is there already.

use lb_peers::raw::http::headers;
use serde_json::json;

use crate::world::{ALLOW, REDIRECT, World, authorize, get, register, send, value};

/// W05: nobody takes the place of a client, whether it registered or is one of the operator's.
#[tokio::test]
async fn whoever_registers_with_the_id_of_a_client_gets_another_one_and_changes_nothing() {
    let own = format!("[[auth.clients]]\nid = \"ops\"\nname = \"Ops\"\nredirect_uris = [\"{REDIRECT}\"]\n");
    let world = World::start(&format!("{ALLOW}{own}"), &[]).await;
    let known = register(world.at()).await;
    let elsewhere = "http://127.0.0.1:4712/evil";
    let mut given = vec![known.clone(), "ops".to_owned()];
    for id in [known.as_str(), "ops"] {
        let said = json!({
            "client_id": id, "client_secret": "chosen-by-whoever-registers", "client_name": "Other",
            "redirect_uris": [elsewhere], "token_endpoint_auth_method": "none",
        });
        let kind = headers(&[("Content-Type", "application/json")]);
        let answer = send(world.at(), "POST", "/register", &kind, said.to_string().as_bytes()).await;
        let told = value(&answer);
        assert_eq!(answer.head.status(), 201, "{told}");
        let new = told["client_id"].as_str().expect("an id").to_owned();
        assert!(!given.contains(&new) && !told.to_string().contains("chosen-by"), "{told}");
        given.push(new);
    }
    // What they were is what they are: nobody is sent anywhere else for them, and they are asked about by their own name.
    for (id, name) in [(known.as_str(), "Test"), ("ops", "Ops")] {
        let asks = authorize(&world.url, id, "mcp:read");
        let path = asks.strip_prefix(&world.url).expect("ours");
        let moved = path.replace("127.0.0.1%3A4711%2Fcb", "127.0.0.1%3A4712%2Fevil");
        assert_ne!(path, moved);
        let refused = get(world.at(), &moved, &[]).await;
        assert_eq!((refused.head.status(), refused.head.header("location")), (400, None), "{}", refused.text());
        let mut browser = lb_peers::idp::Browser::default();
        let asked = browser.open(&asks.parse().expect("a URL"), None).await.expect("an answer");
        let consent = asked.head.header("location").expect("to consent").parse().expect("a URL");
        let page = browser.open(&consent, None).await.expect("a page").text();
        assert!(page.contains(&format!("{name} wants to use")) && !page.contains("Other"), "{page}");
    }
}
