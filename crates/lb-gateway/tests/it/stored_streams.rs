//! What the streams of all sessions keep has one bound.

use std::sync::Arc;

use lb_exchange::{EventId, Middle as _, Mount, Seat, ServerName, ServerSpec, Target, Tasks, Visitor};
use lb_front::{Front, Settings};
use lb_gateway::{Gateway, Limits, Setup};
use lb_session::streams::Limits as StreamLimits;
use lb_wire::Raw;

use crate::client::Client;
use crate::servers;

/// An ended stream with one message.
fn answered(seat: &dyn Seat, bytes: usize) -> EventId {
    let streams = seat.streams();
    let stream = streams.open(&mut std::iter::empty());
    let id = streams.append(stream, Some(Raw::string(&"x".repeat(bytes)).into_line())).expect("stored");
    streams.finish(stream);
    id
}

#[tokio::test]
async fn one_session_makes_room_for_another() {
    let _alone = crate::ALONE.lock().await;
    let name = ServerName::parse("pipe").expect("a name");
    let mount = Mount::Server(name.clone());
    let tasks = Tasks::default();
    let streams = StreamLimits { node_bytes_max: 1_000, ..StreamLimits::default() };
    let specs = vec![ServerSpec::new(name, Target::Embedded("plain".into()))];
    let gateway = Gateway::new(
        specs,
        &servers::environment(&tasks),
        Setup { limits: Limits { streams, ..Limits::default() }, ..Setup::default() },
    );
    let gateway = gateway.expect("a gateway");
    let front = Front::new(Arc::new(gateway.clone()), Settings::default());
    let mut seats = Vec::new();
    for _ in 0..2 {
        let mut client = Client { front: front.clone(), mount: mount.clone(), session: None };
        client.seat().await;
        let id = client.session.expect("a session");
        seats.push(gateway.seat(&id, &mount, &Visitor::local()).expect("its seat"));
    }
    let first = answered(&*seats[0], 600);
    assert!(seats[0].streams().resume(&first.0).is_ok());
    let second = answered(&*seats[1], 600);
    assert!(seats[0].streams().resume(&first.0).is_err(), "the older one went");
    assert!(seats[1].streams().resume(&second.0).is_ok());
    gateway.close().await;
    assert!(tasks.close(std::time::Duration::from_secs(5)).await, "every task ends");
}
