//! Whose a session is that is kept: one client of one principal, and the login that was last used on it.

use lb_exchange::Unseated;

use super::defaults::caller;
use super::*;

fn who(client: Option<&str>, family: &str) -> Visitor {
    Visitor {
        client: client.map(Into::into),
        family: Some(family.into()),
        ..Visitor::of(Principal::named("https://id.test|ann"))
    }
}

impl Process {
    async fn seat_of(&self, id: &str, who: &Visitor) -> Option<Arc<dyn Seat>> {
        assert_eq!(self.locate(id).await, Place::Here);
        self.gateway.seat(id, &Mount::Tools, who)
    }

    fn family_of(&self, id: &str) -> Option<Arc<str>> {
        let seat = self.gateway.everybody().into_iter().find(|seat| seat.id().as_str() == id)?;
        seat.family.lock().clone()
    }
}

async fn head(store: &Arc<dyn Store>, id: &str) -> serde_json::Value {
    let head = store.get(&key(id, "head")).await.expect("an answer").expect("a head");
    serde_json::from_slice(&head).expect("JSON")
}

#[tokio::test]
async fn a_session_comes_back_to_its_client_alone_and_remembers_the_login_it_was_last_used_by() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let editor = who(Some("editor"), "f1");
    let id = first.try_begin_as(&editor).await.expect("room");
    first.written().await;
    assert_eq!(
        (&head(&store, &id).await["client"], &head(&store, &id).await["family"]),
        (&"editor".into(), &"f1".into())
    );
    let renewed = who(Some("editor"), "f2");
    assert!(first.seat_of(&id, &renewed).await.is_some());
    first.written().await;
    let written = head(&store, &id).await;
    assert_eq!((&written["family"], &written["hello"]["x"]), (&"f2".into(), &serde_json::json!([1])));
    first.stop().await;

    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    for stranger in [who(Some("shell"), "f2"), who(None, "f2"), Visitor::local()] {
        assert!(second.seat_of(&id, &stranger).await.is_none(), "{stranger:?}");
    }
    assert_eq!(second.family_of(&id).as_deref(), Some("f2"), "strangers change nothing");
    let seat = second.seat_of(&id, &renewed).await.expect("its own client");
    assert_eq!(seat.caller().client.as_deref(), Some("editor"));
}

#[tokio::test]
async fn what_was_written_before_there_were_clients_is_still_read() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let id = first.begin().await;
    first.written().await;
    let old = head(&store, &id).await;
    assert!(
        old.get("client").is_none() && old.get("family").is_none(),
        "nothing is written where nobody logs in: {old}"
    );
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    assert!(second.seat_of(&id, &Visitor::local()).await.is_some());
    assert_eq!(second.family_of(&id), None);
}

#[tokio::test]
async fn modern_clients_of_one_principal_have_a_session_each() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let everybody = [who(Some("editor"), "f1"), who(Some("shell"), "f1"), who(None, "f1"), Visitor::local()];
    let mut handles = Vec::new();
    for visitor in &everybody {
        let call = Unseated { mount: &Mount::Default, who: visitor, tool: "act" };
        assert_eq!(process.gateway.locate_unseated(call).await, Place::Here);
        let live = process.gateway.default_session(&caller(visitor));
        live.remember();
        handles.push(live.handle().to_owned());
    }
    process.written().await;
    for (at, visitor) in everybody.iter().enumerate() {
        for (other, handle) in handles.iter().enumerate() {
            let found = process.gateway.session(handle, &caller(visitor)).is_some();
            assert_eq!(found, at == other, "{visitor:?} names the session of {:?}", everybody[other]);
        }
    }
    process.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    for (visitor, handle) in everybody.iter().zip(&handles) {
        let call = Unseated { mount: &Mount::Default, who: visitor, tool: "look" };
        assert_eq!(second.gateway.locate_unseated(call).await, Place::Here);
        assert_eq!(second.gateway.default_session(&caller(visitor)).handle(), handle);
    }
}

#[tokio::test]
async fn names_of_principals_and_clients_do_not_run_into_each_other() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let pair = |principal: &str, client: &str| Visitor {
        client: Some(client.into()),
        ..Visitor::of(Principal::named(principal))
    };
    let one = process.gateway.default_session(&caller(&pair("a:b", "c")));
    let other = process.gateway.default_session(&caller(&pair("a", "b:c")));
    assert_ne!(one.handle(), other.handle());
}
