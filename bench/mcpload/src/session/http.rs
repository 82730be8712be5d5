//! A session over HTTP, of either era or of HTTP+SSE, on a connection of its own.
use super::{Era, Waiters};
use crate::rpc::{Call, INITIALIZED, MODERN, Msg, Sse, classify, clip, initialize_params};
use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, body::Incoming, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::{net::TcpStream, sync::oneshot, time::timeout};

#[derive(Clone)]
pub struct HttpTarget {
    pub authority: String,
    pub path: String,
    pub era: Era,
    pub version: String,
    pub headers: Vec<(String, String)>,
    pub deadline: Duration,
    /// Calls of tools take a stream and nothing else: a reply of another kind is an error.
    pub stream: bool,
}

impl HttpTarget {
    pub fn parse(url: &str, era: Era, version: &str, headers: &[String], deadline: Duration) -> Result<Self> {
        let rest = url.strip_prefix("http://").context("only http:// urls are supported")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let headers = headers
            .iter()
            .map(|h| {
                let (k, v) = h.split_once(':').with_context(|| format!("header `{h}` has no colon"))?;
                Ok((k.trim().to_string(), v.trim().to_string()))
            })
            .collect::<Result<_>>()?;
        Ok(HttpTarget {
            authority: authority.into(),
            path: format!("/{path}"),
            era,
            version: version.into(),
            headers,
            deadline,
            stream: false,
        })
    }
}

/// A session with its own keep-alive connection: a client of its own, as agents are.
pub struct HttpSession {
    t: HttpTarget,
    conn: Option<http1::SendRequest<Full<Bytes>>>,
    session: Option<String>,
    negotiated: Option<String>,
    next_id: u64,
    /// Set in the HTTP+SSE era: who waits for which reply.
    waiters: Option<Waiters>,
    /// Connections opened after the first one (server closed, or left a stream open).
    pub reconnects: u64,
}

impl HttpSession {
    pub fn new(t: HttpTarget) -> Self {
        HttpSession { t, conn: None, session: None, negotiated: None, next_id: 1, waiters: None, reconnects: 0 }
    }

    /// Connects and, in the legacy era, does the handshake.
    pub async fn open(t: HttpTarget) -> Result<Self> {
        let mut s = Self::new(t);
        if s.t.era == Era::Modern {
            s.connect().await?;
        } else {
            s.initialize().await?;
            s.initialized().await?;
        }
        Ok(s)
    }

    /// Sends everything from now on to another node.
    pub fn go_to(&mut self, authority: &str) {
        authority.clone_into(&mut self.t.authority);
        self.hang_up();
    }

    /// Closes the connection; the next request opens another one.
    pub fn hang_up(&mut self) {
        self.conn = None;
    }

    pub async fn initialize(&mut self) -> Result<String> {
        if self.t.era == Era::Sse {
            self.attach().await?;
        }
        let call = Call::new("initialize", initialize_params(&self.t.version), false);
        let r = self.request(&call).await?;
        let v: serde_json::Value = serde_json::from_str(&r)?;
        self.negotiated = v["protocolVersion"].as_str().map(String::from);
        Ok(r)
    }

    pub async fn initialized(&mut self) -> Result<()> {
        let d = self.t.deadline;
        timeout(d, async {
            let resp = self.send(Method::POST, None, Bytes::from_static(INITIALIZED.as_bytes())).await?;
            if !resp.status().is_success() {
                bail!("notifications/initialized: HTTP {}", resp.status());
            }
            self.drain(resp.into_body()).await;
            Ok(())
        })
        .await?
    }

    async fn connect(&mut self) -> Result<()> {
        let s = TcpStream::connect(&self.t.authority).await?;
        s.set_nodelay(true)?;
        let (tx, conn) = http1::handshake(TokioIo::new(s)).await?;
        tokio::spawn(async move {
            let _ = conn.await;
        });
        self.conn = Some(tx);
        Ok(())
    }

    /// Opens the HTTP+SSE stream, learns where to post, and routes replies from then on.
    async fn attach(&mut self) -> Result<()> {
        let mut get = HttpSession::new(self.t.clone());
        let resp = get.send(Method::GET, None, Bytes::new()).await?;
        if !resp.status().is_success() {
            bail!("GET {}: HTTP {}", self.t.path, resp.status());
        }
        let (tx, rx) = oneshot::channel();
        let waiters: Waiters = Default::default();
        self.waiters = Some(waiters.clone());
        tokio::spawn(async move {
            let _keep = get; // the connection lives as long as its stream
            let (mut body, mut events, mut tx) = (resp.into_body(), Sse::default(), Some(tx));
            while let Some(Ok(f)) = body.frame().await {
                let Ok(data) = f.into_data() else { continue };
                if events.push(&data).is_err() {
                    break;
                }
                while let Some(e) = events.next_event() {
                    if let Some(tx) = tx.take() {
                        let _ = tx.send(String::from_utf8_lossy(&e).into_owned());
                    } else if let Ok(Msg::Reply { id: Some(id), result }) = classify(&e) {
                        if let Some(w) = waiters.lock().unwrap().remove(&id) {
                            let _ = w.send(result);
                        }
                    }
                }
            }
            waiters.lock().unwrap().clear();
        });
        let at = timeout(self.t.deadline, rx).await??;
        self.t.path = match at.strip_prefix("http://") {
            Some(rest) => format!("/{}", rest.split_once('/').map_or("", |x| x.1)),
            None => at,
        };
        Ok(())
    }

    /// Whether the reply to a call has to be a stream.
    fn streams(&self, call: Option<&Call>) -> bool {
        self.t.stream && call.is_some_and(|call| call.method == "tools/call")
    }

    async fn send(&mut self, m: Method, call: Option<&Call>, body: Bytes) -> Result<Response<Incoming>> {
        let accept = if self.streams(call) { "text/event-stream" } else { "application/json, text/event-stream" };
        for attempt in 0..2 {
            let fresh = match &mut self.conn {
                Some(c) => c.ready().await.is_err(),
                None => true,
            };
            if fresh {
                self.reconnects += u64::from(self.conn.is_some());
                self.connect().await?;
            }
            let mut r = Request::builder()
                .method(m.clone())
                .uri(&self.t.path)
                .header(header::HOST, &self.t.authority)
                .header(header::ACCEPT, accept);
            if m == Method::POST {
                r = r.header(header::CONTENT_TYPE, "application/json");
            }
            for (k, v) in &self.t.headers {
                r = r.header(k, v);
            }
            if self.t.era == Era::Modern {
                r = r.header("MCP-Protocol-Version", MODERN);
                if let Some(c) = call {
                    r = r.header("Mcp-Method", c.method);
                    if let Some(n) = &c.name {
                        r = r.header("Mcp-Name", n);
                    }
                }
            } else {
                if let Some(s) = &self.session {
                    r = r.header("Mcp-Session-Id", s);
                }
                if let Some(v) = &self.negotiated {
                    r = r.header("MCP-Protocol-Version", v);
                }
            }
            let req = r.body(Full::new(body.clone()))?;
            match self.conn.as_mut().expect("connected above").send_request(req).await {
                Ok(resp) => return Ok(resp),
                // An idle keep-alive connection the server closed under us: once more on a new one.
                Err(e) if attempt == 0 && (e.is_canceled() || e.is_incomplete_message()) => {
                    self.conn = None;
                    self.reconnects += 1;
                }
                Err(e) => {
                    self.conn = None;
                    return Err(e.into());
                }
            }
        }
        bail!("connection lost twice")
    }

    /// Empties a body so the connection can be used again; gives up on one left open.
    async fn drain(&mut self, mut b: Incoming) {
        let all = async { while let Some(Ok(_)) = b.frame().await {} };
        if timeout(Duration::from_millis(100), all).await.is_err() {
            self.conn = None;
            self.reconnects += 1;
        }
    }

    pub async fn request(&mut self, call: &Call) -> Result<String> {
        let d = self.t.deadline;
        match timeout(d, self.request_inner(call)).await {
            Ok(r) => r,
            Err(_) => {
                self.conn = None;
                Err(anyhow!("no reply within {d:?}"))
            }
        }
    }

    async fn request_inner(&mut self, call: &Call) -> Result<String> {
        let id = self.next_id;
        self.next_id += 1;
        if let Some(w) = self.waiters.clone() {
            let (tx, rx) = oneshot::channel();
            w.lock().unwrap().insert(id, tx);
            let resp = self.send(Method::POST, Some(call), Bytes::from(call.body(id))).await?;
            let status = resp.status();
            let _ = resp.into_body().collect().await;
            if !status.is_success() {
                bail!("HTTP {status}");
            }
            return rx.await.map_err(|_| anyhow!("the SSE stream ended"))?;
        }
        let resp = self.send(Method::POST, Some(call), Bytes::from(call.body(id))).await?;
        if let Some(s) = resp.headers().get("mcp-session-id") {
            self.session = Some(s.to_str()?.to_string());
        }
        let status = resp.status();
        let sse = resp
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .is_some_and(|v| v.starts_with("text/event-stream"));
        let mut body = resp.into_body();
        if !sse {
            let b = body.collect().await?.to_bytes();
            if !status.is_success() {
                bail!("HTTP {status}: {}", clip(&String::from_utf8_lossy(&b)));
            }
            if self.streams(Some(call)) {
                bail!("a stream was asked for, and the reply is none");
            }
            return match classify(&b)? {
                Msg::Reply { id: Some(i), result } if i == id => result,
                _ => bail!("the JSON body is not the reply to request {id}"),
            };
        }
        let mut events = Sse::default();
        while let Some(f) = body.frame().await {
            let Ok(data) = f?.into_data() else { continue };
            events.push(&data)?;
            while let Some(e) = events.next_event() {
                if let Msg::Reply { id: Some(i), result } = classify(&e)? {
                    if i == id {
                        self.drain(body).await;
                        return result;
                    }
                }
            }
        }
        bail!("the SSE stream ended without the reply to request {id}")
    }

    /// Opens the server-to-client stream (GET) on a connection of its own and holds it.
    pub async fn listen(&self) -> Result<Option<Response<Incoming>>> {
        let mut s = HttpSession::new(self.t.clone());
        s.session = self.session.clone();
        s.negotiated = self.negotiated.clone();
        let r = timeout(self.t.deadline, s.send(Method::GET, None, Bytes::new())).await??;
        Ok(r.status().is_success().then_some(r))
    }

    pub async fn close(&mut self) {
        if self.t.era == Era::Legacy && self.session.is_some() {
            let _ = timeout(Duration::from_secs(2), async {
                if let Ok(r) = self.send(Method::DELETE, None, Bytes::new()).await {
                    self.drain(r.into_body()).await;
                }
            })
            .await;
        }
    }
}
