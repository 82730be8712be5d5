//! Two nodes with one store on a server.

mod behind;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use lb_auth::Refusal;
use lb_peers::idp::{Browser, Decision, Options};
use lb_peers::valkey::Valkey;
use lb_store::Store;

use crate::gateway::{World, parameter, redeem_at};

async fn node(server: &Valkey) -> Arc<dyn Store> {
    lb_store::open(&lb_store::Settings::parse(&server.url()).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_that_is_redeemed_on_two_nodes_at_once_is_good_once_and_a_store_that_is_away_is_told() {
    let mut server = tokio::task::spawn_blocking(Valkey::start).await.unwrap();
    let world = Arc::new(World::start(node(&server).await, Options::default()).await);
    let client = world.register().await;
    let stopped = world.login(&mut Browser::default(), &client, "mcp:call", "alice", Decision::Approve).await;
    let code = parameter(&stopped.url, "code").unwrap();
    let other = world.node(node(&server).await);
    let here = join_all((0..25).map(|_| world.redeem(&client, &code)));
    let there = join_all((0..25).map(|_| redeem_at(&other, &client, &code)));
    let (here, there) = tokio::join!(here, there);
    let answers = [here, there].concat();
    let won: Vec<_> = answers.iter().filter(|(status, _)| *status == 200).collect();
    assert_eq!(won.len(), 1);
    assert!(answers.iter().all(|(status, body)| *status == 200 || body["error"] == "invalid_grant"), "{answers:?}");
    let token = won[0].1["access_token"].as_str().unwrap();
    assert_eq!(world.check(token).await.unwrap_err(), Refusal::Invalid, "it was used twice");
    let stopped = world.login(&mut Browser::default(), &client, "mcp:call", "alice", Decision::Approve).await;
    let (_, tokens) = world.redeem(&client, &parameter(&stopped.url, "code").unwrap()).await;
    let token = tokens["access_token"].as_str().unwrap();
    world.check(token).await.unwrap();
    tokio::task::block_in_place(|| server.kill9());
    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    let uri = "/mcp".parse().unwrap();
    let now = SystemTime::now();
    assert!(world.auth.check(&headers, &uri, now).await.is_ok(), "what was read a moment ago counts");
    let later = world.auth.check(&headers, &uri, now + Duration::from_secs(6)).await;
    assert_eq!(later.unwrap_err(), Refusal::StoreAway);
    let (status, body) = world.form("/revoke", &[("client_id", client.as_str()), ("token", token)]).await;
    assert_eq!((status, &body["error"]), (503, &"temporarily_unavailable".into()));
}

/// The same with everything sealed.
async fn sealed(server: &Valkey) -> Arc<dyn Store> {
    let mut settings = lb_store::Settings::parse(&server.url()).unwrap();
    settings.seal = Some(lb_store::SealKeys::new(&[[7_u8; 32]]).unwrap());
    lb_store::open(&settings).await.unwrap()
}

/// What somebody does to our records who knows the server and not the key. All keys of a pattern are theirs.
fn evil(server: &Valkey, script: &str, pattern: &str) {
    let script = format!("local all = redis.call('KEYS', ARGV[1]) table.sort(all) {script} return #all");
    let answer = server.command(&["EVAL", &script, "0", pattern]);
    assert!(answer.starts_with(':') && !answer.starts_with(":0"), "{pattern}: {answer}");
}

const FLIP: &str = "for _, key in ipairs(all) do local v = redis.call('GET', key) local at = math.floor(#v / 2) \
    local b = string.byte(v, at) if b >= 128 then b = b - 128 else b = b + 128 end \
    redis.call('SET', key, string.sub(v, 1, at - 1) .. string.char(b) .. string.sub(v, at + 1), 'KEEPTTL') end";
const SWAP: &str = "local a, b = redis.call('GET', all[1]), redis.call('GET', all[2]) \
    redis.call('SET', all[1], b, 'KEEPTTL') redis.call('SET', all[2], a, 'KEEPTTL')";
const INJECT: &str = "for _, key in ipairs(all) do redis.call('SET', key, '{\"granted\":{}}', 'KEEPTTL') end";

/// Who a token belongs to, for a node that has read nothing before.
async fn checked(world: &World, server: &Valkey, token: &str) -> Result<String, Refusal> {
    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    let grant = world.node(sealed(server).await).check(&headers, &"/mcp".parse().unwrap(), SystemTime::now()).await;
    grant.map(|grant| grant.who.subject.to_string())
}

async fn consent(world: &World, at: &str) -> u16 {
    let request = http::Request::get(at).body(bytes::Bytes::new()).unwrap();
    world.auth.handle(request, std::net::Ipv4Addr::LOCALHOST.into(), SystemTime::now()).await.status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_clients_and_families_that_somebody_else_wrote_are_not_there() {
    let server = tokio::task::spawn_blocking(Valkey::start).await.unwrap();
    let world = World::start(sealed(&server).await, Options::default()).await;
    let client = world.register().await;
    let mut tokens = Vec::new();
    for user in ["alice", "bob"] {
        let stopped = world.login(&mut Browser::default(), &client, "mcp:call", user, Decision::Approve).await;
        let (_, told) = world.redeem(&client, &parameter(&stopped.url, "code").unwrap()).await;
        tokens.push(told["access_token"].as_str().unwrap().to_owned());
    }
    let fresh = |at: usize| checked(&world, &server, &tokens[at]);
    assert_eq!((fresh(0).await.unwrap(), fresh(1).await.unwrap()), ("alice".into(), "bob".into()));
    // One who has logged in gets what another has: not at all, rather than as the other.
    evil(&server, SWAP, "landbridge:fam:*");
    assert_eq!((fresh(0).await, fresh(1).await), (Err(Refusal::Invalid), Err(Refusal::Invalid)));
    evil(&server, SWAP, "landbridge:fam:*");
    assert_eq!((fresh(0).await.unwrap(), fresh(1).await.unwrap()), ("alice".into(), "bob".into()));
    evil(&server, FLIP, "landbridge:fam:*");
    assert_eq!(fresh(0).await, Err(Refusal::Invalid));
    evil(&server, INJECT, "landbridge:fam:*");
    assert_eq!((fresh(0).await, fresh(1).await), (Err(Refusal::Invalid), Err(Refusal::Invalid)));

    let start = url::Url::parse(&world.authorize(&client, "mcp:call")).unwrap();
    for script in [FLIP, INJECT] {
        let to = format!("/authorize?{}", start.query().unwrap());
        let request = http::Request::get(&to).body(bytes::Bytes::new()).unwrap();
        let answer = world.auth.handle(request, std::net::Ipv4Addr::LOCALHOST.into(), SystemTime::now()).await;
        let ask = url::Url::parse(answer.headers()["location"].to_str().unwrap()).unwrap();
        let ask = format!("{}?{}", ask.path(), ask.query().unwrap());
        assert_eq!(consent(&world, &ask).await, 200);
        evil(&server, script, "landbridge:authtxn:*");
        assert_eq!(consent(&world, &ask).await, 400, "there is no such login");
    }

    for script in [FLIP, INJECT] {
        let id = world.register().await;
        let request = [("grant_type", "refresh_token"), ("client_id", id.as_str()), ("refresh_token", "x")];
        assert_eq!(world.form("/token", &request).await.1["error"], "invalid_grant", "the client is known");
        evil(&server, script, "landbridge:client:*");
        let (status, told) = world.form("/token", &request).await;
        assert_eq!((status, &told["error"]), (401, &"invalid_client".into()), "{told}");
    }
    // And life goes on.
    let client = world.register().await;
    let stopped = world.login(&mut Browser::default(), &client, "mcp:call", "alice", Decision::Approve).await;
    let (status, told) = world.redeem(&client, &parameter(&stopped.url, "code").unwrap()).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(checked(&world, &server, told["access_token"].as_str().unwrap()).await.unwrap(), "alice");
}
