//! Stands before a gateway, and keeps what is sent to it and what it answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What was said in both directions, in whatever order.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    /// Passes on what comes to a listener, and listens.
    #[expect(clippy::disallowed_methods, reason = "a test's tap ends with its runtime")]
    pub fn between(listener: TcpListener, gateway: SocketAddr) -> Self {
        let heard = Self::default();
        let kept = heard.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (there, back) = (kept.clone(), kept.clone());
                tokio::spawn(async move {
                    let Ok(gateway) = TcpStream::connect(gateway).await else { return };
                    let ((from, to_client), (answers, to)) = (client.into_split(), gateway.into_split());
                    tokio::join!(there.passes(from, to), back.passes(answers, to_client));
                });
            }
        });
        heard
    }

    async fn passes(self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let mut piece = [0; 4_096];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            {
                let mut heard = self.0.lock().expect("no panic holds it");
                heard.extend_from_slice(&piece[..read]);
                // What is said next, in whichever direction, is something else.
                heard.push(b'\n');
            }
            if to.write_all(&piece[..read]).await.is_err() {
                return;
            }
        }
        // Whoever has gone has no use for the end of it.
        to.shutdown().await.ok();
    }

    /// All values of a name, in forms and in JSON, as they were before they were written there.
    pub fn all(&self, name: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock().expect("no panic holds it")).into_owned();
        let (json, form) = (format!("\"{name}\":\""), format!("{name}="));
        let mut found: Vec<String> =
            text.split(&json).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect();
        // A form is a line of its own.
        let lines = text.lines().filter(|line| !line.contains(' '));
        let pairs = lines.flat_map(|line| line.split('&')).filter_map(|pair| pair.strip_prefix(&form));
        found.extend(pairs.map(|value| {
            let pair = format!("x={value}");
            url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
        }));
        found.sort();
        found.dedup();
        found
    }
}
