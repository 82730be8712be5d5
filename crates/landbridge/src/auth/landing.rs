//! A place on this machine where a browser comes back to from a login: opened for one, and closed after it.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lb_auth::behind::{Behind, Opener, Place};
use lb_exchange::Tasks;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long somebody may take to log in, and a little more.
const OPEN_FOR: Duration = Duration::from_secs(630);
/// How long it is there after they came back, for what their page still needs.
const LINGER: Duration = Duration::from_secs(2);
/// How long one connection may take.
const CONNECTION_MAX: Duration = Duration::from_secs(30);
const PATH: &str = "/callback";

/// Opens such places, for the logins that are in the cell by then.
pub fn opener(behind: Arc<OnceLock<Behind>>, tasks: Tasks) -> Opener {
    Arc::new(move || {
        let (behind, tasks) = (behind.clone(), tasks.clone());
        Box::pin(async move {
            let failed = |error: std::io::Error| format!("nothing can listen on 127.0.0.1: {error}");
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
            let port = listener.local_addr().map_err(failed)?.port();
            let behind = behind.get().cloned().ok_or("it is not ready")?;
            let (stopping, closed) = (tasks.clone(), CancellationToken::new());
            let close = closed.clone().drop_guard();
            tasks.spawn(async move {
                tokio::select! {
                    () = serve(listener, behind) => {}
                    () = tokio::time::sleep(OPEN_FOR) => {}
                    () = closed.cancelled() => {}
                    () = stopping.stopping() => {}
                }
            });
            Ok(Place { address: format!("http://127.0.0.1:{port}{PATH}"), close })
        })
    })
}

/// Answers until somebody came back. What is under way then ends with it.
async fn serve(listener: TcpListener, behind: Behind) {
    let came = Arc::new(Notify::new());
    let mut connections = JoinSet::new();
    let accepting = async {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(LINGER).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            let (behind, came) = (behind.clone(), came.clone());
            let service = service_fn(move |request| {
                let (behind, came) = (behind.clone(), came.clone());
                async move { Ok::<_, Infallible>(answer(&behind, request, &came).await) }
            });
            connections.spawn(async move {
                let served = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
                // A browser may break off, or say nothing.
                drop(tokio::time::timeout(CONNECTION_MAX, served).await);
            });
        }
    };
    let over = async {
        came.notified().await;
        tokio::time::sleep(LINGER).await;
    };
    tokio::select! {
        () = accepting => {}
        () = over => {}
    }
}

async fn answer(behind: &Behind, request: Request<Incoming>, came: &Notify) -> Response<Full<Bytes>> {
    let request = request.map(|_| Bytes::new());
    let path = request.uri().path();
    let answer = if path == PATH && request.method() == http::Method::GET {
        let query = request.uri().query().unwrap_or_default();
        let answer = behind.callback(query, request.headers(), SystemTime::now()).await;
        // Whoever brings nothing of ours does not close it for those who do.
        if answer.status().is_success() {
            came.notify_one();
        }
        answer
    } else if Behind::handles(path) {
        behind.handle(&request, SystemTime::now()).await
    } else {
        let mut missing = Response::new(Bytes::new());
        *missing.status_mut() = StatusCode::NOT_FOUND;
        missing
    };
    answer.map(Full::new)
}
